"""Toolsets: pinned, versioned, named reversibly."""

from typing import Any

import httpx2
import pytest

from tests.fixtures.api import SCRIPT, Api

OBJECT = {"type": "object"}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "input_schema": OBJECT, **fields}


async def put(api: Api, *tools: dict[str, Any], name: str = "support", **fields: Any) -> httpx2.Response:
    return await api.call("POST", "/v1/toolsets", json={"name": name, "tools": list(tools), **fields})


async def test_a_toolset_is_pinned_and_shown(api: Api) -> None:
    answer = await put(
        api,
        tool("github.list_issues", output_schema={"type": "array"}, idempotent=True),
        tool("ask_user", approval={"expires": "3d"}, retry={"attempts": 3, "backoff": "1s"}, timeout="5m"),
    )
    assert answer.status_code == 201, answer.text
    view = answer.json()
    assert set(view) == {"id", "name", "digest", "tools", "warnings"}
    assert [found["name"] for found in view["tools"]] == ["github.list_issues", "ask_user"]
    first, second = view["tools"]
    assert (first["kind"], first["approval"], first["idempotent"]) == ("host", None, True)
    assert second["approval"] == {"expires": 3 * 86_400_000}
    assert view["warnings"] == []
    got = (await api.call("GET", "/v1/toolsets/support")).json()
    assert got == view
    assert (await api.call("GET", f"/v1/toolsets/support@{view['digest']}")).json() == got


async def test_the_same_again_is_a_no_op_and_a_change_a_version(api: Api) -> None:
    first = await put(api, tool("a", input_schema={"type": "object", "minProperties": 1}))
    same = await put(
        api, {"input_schema": {"minProperties": 1.0, "type": "object"}, "description": "d", "name": "a"}
    )
    assert (first.status_code, same.status_code) == (201, 200)
    assert same.json() == first.json()
    changed = await put(api, tool("a", description="other"))
    assert changed.status_code == 201
    assert changed.json()["digest"] != first.json()["digest"]
    assert changed.json()["id"] == first.json()["id"]
    latest = (await api.call("GET", "/v1/toolsets/support")).json()
    assert latest["digest"] == changed.json()["digest"]
    back = await put(api, tool("a", input_schema={"type": "object", "minProperties": 1}))
    assert back.json()["digest"] == first.json()["digest"]


async def test_runs_keep_the_version_they_began_with(api: Api) -> None:
    old = (await put(api, tool("a"))).json()["digest"]
    run = await api.start(toolset="support")
    await put(api, tool("b"))
    pinned = await api.start(toolset=f"support@{old}")
    assert run["toolset"] == pinned["toolset"] == f"support@{old}"
    assert (await api.start(toolset="support"))["toolset"] != run["toolset"]


async def test_a_deleted_toolset_serves_what_has_begun(api: Api) -> None:
    await put(api, tool("a-b"))
    run = await api.start(toolset="support")
    assert (await api.call("DELETE", "/v1/toolsets/support")).status_code == 204
    assert (await api.call("GET", "/v1/toolsets/support")).status_code == 404
    for reference in ("support", run["toolset"]):
        refused = await api.call(
            "POST", "/v1/runs?namespace=acme", json={"script": SCRIPT, "toolset": reference}
        )
        assert refused.json()["code"] == "unknown_toolset"
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("a_b", {})
    (task,) = (await api.call("POST", "/v1/tasks/claim", json={"max": 5})).json()["tasks"]
    assert task["tool"] == "a-b"


async def test_names_are_mapped_reversibly(api: Api) -> None:
    answer = await put(
        api, *(tool(name) for name in ("a-b", "a_b", "g.x-y", "g.x_y", "g.x y", "2fa", "g.delete"))
    )
    assert answer.status_code == 201, answer.text
    named = {found["original"]: found["name"] for found in answer.json()["tools"]}
    assert named == {
        "a-b": "a_b_2", "a_b": "a_b", "g.x-y": "g.x_y_2", "g.x_y": "g.x_y", "g.x y": "g.x_y_3", "2fa": "_fa",
        "g.delete": "g.delete",
    }  # fmt: skip


@pytest.mark.parametrize(
    "name",
    ["", "delete", "http", "http.get", "workflows.x", "tools", "then", "g.then", "g.", ".x", "class.x", "a b.c",
     "__proto__", "g.__proto__", "x" * 129, "g" * 65 + ".x"],
)  # fmt: skip
async def test_names_that_scripts_could_not_use(api: Api, name: str) -> None:
    answer = await put(api, tool("fine"), tool(name))
    assert (answer.status_code, answer.json()["code"]) == (422, "toolset_invalid")
    assert [error["path"] for error in answer.json()["errors"]] == ["tools[1].name"]


@pytest.mark.parametrize(
    ("tools", "path"),
    [
        ([tool("a"), tool("a")], "tools[1].name"),
        ([tool("a.b"), tool("a")], "tools[1].name"),
        ([tool("a", input_schema={"type": "objekt"})], "tools[0].input_schema.type"),
        (
            [tool("a", output_schema={"properties": {"x": {"type": 3}}})],
            "tools[0].output_schema.properties.x.type",
        ),
        ([tool("a", input_schema=[])], "tools[0].input_schema"),
        ([tool("a", input_schema=None)], "tools[0].input_schema"),
        (
            [tool("a", input_schema={"$schema": "http://json-schema.org/draft-03/schema#"})],
            "tools[0].input_schema.$schema",
        ),
        ([tool("a", approval="yes")], "tools[0].approval"),
        ([tool("a", approval={"expires": "soon"})], "tools[0].approval"),
        ([tool("a", approval={"until": "1d"})], "tools[0].approval"),
    ],
)
async def test_toolsets_that_cannot_be_pinned(api: Api, tools: list[Any], path: str) -> None:
    answer = await put(api, *tools)
    assert (answer.status_code, answer.json()["code"]) == (422, "toolset_invalid"), answer.text
    assert path in [error["path"] for error in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"mcp": {}}, "mcp"),
        ({"mcp": [{"name": "a"}]}, "mcp[0].url"),
        ({"http": {"allow": []}}, "http.allow"),
        ({"workflows": "x"}, "workflows"),
        ({"secrets": "all"}, "secrets"),
        ({"name": "Upper"}, "name"),
        ({"name": "a\n"}, "name"),
        ({"tools": [tool("a", rate={"limit": 1})]}, "tools[0].rate.per"),
        ({"tools": [tool("a", retry={"attempts": 0})]}, "tools[0].retry.attempts"),
        ({"tools": [tool("a", retry={"attempts": 2, "backof": 1})]}, "tools[0].retry.backof"),
        ({"tools": [tool("a", timeout="never")]}, "tools[0].timeout"),
        ({"tools": [{"name": "a"}]}, "tools[0].description"),
        ({"tools": [tool("a", description="nul \0")]}, "tools[0].description"),
        ({"tools": "all"}, "tools"),
    ],
)
async def test_bodies_that_are_no_toolset(api: Api, fields: dict[str, Any], path: str) -> None:
    answer = await api.call("POST", "/v1/toolsets", json={"name": "support", "tools": [], **fields})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), answer.text
    assert path in [error["path"] for error in answer.json()["errors"]]


async def test_schemas_with_references_out_are_warned_of_and_never_fetched(api: Api) -> None:
    schema = {
        "properties": {"a": {"$ref": "https://example.com/s.json"}, "b": {"$ref": "file:///etc/hostname"}}
    }
    answer = await put(api, tool("a", input_schema=schema), tool("b", output_schema={"$ref": "#/$defs/none"}))
    assert answer.status_code == 201
    places = [warning.split(": '")[0] for warning in answer.json()["warnings"]]
    assert places == [
        "a: input_schema: properties.a.$ref", "a: input_schema: properties.b.$ref", "b: output_schema: $ref",
    ]  # fmt: skip


async def test_nul_in_schemas(api: Api) -> None:
    assert (await put(api, tool("a", input_schema={"pattern": "\\u0000"}))).status_code == 201
    refused = await put(api, tool("a", input_schema={"title": "a\0b"}))
    assert refused.json()["code"] == "toolset_invalid"


async def test_idempotency(api: Api) -> None:
    async def send(*tools: Any) -> httpx2.Response:
        body = {"name": "support", "tools": list(tools)}
        return await api.call("POST", "/v1/toolsets", json=body, headers={"Idempotency-Key": "k"})

    first = await send(tool("a"))
    await put(api, tool("b"))
    again = await send(tool("a"))
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true")
    assert [found["name"] for found in again.json()["tools"]] == ["b"]  # the object as it is now
    assert first.json()["id"] == again.json()["id"]
    assert (await send(tool("c"))).json()["code"] == "idempotency_conflict"
    await api.call("DELETE", "/v1/toolsets/support")
    assert (await send(tool("a"))).status_code == 404


async def test_lists(api: Api) -> None:
    for name in ("one", "two", "three"):
        await put(api, tool("a"), name=name)
    page = (await api.call("GET", "/v1/toolsets?limit=2")).json()
    rest = (await api.call("GET", f"/v1/toolsets?limit=2&after={page['next']}")).json()
    assert [found["name"] for found in page["data"] + rest["data"]] == ["three", "two", "one"]
    assert rest["next"] is None
    secret = await api.token("acme", narrow={"toolset": "two"})
    narrowed = (await api.call("GET", "/v1/toolsets", secret=secret)).json()
    assert [found["name"] for found in narrowed["data"]] == ["two"]
    assert (await api.call("GET", "/v1/toolsets/one", secret=secret)).status_code == 403
