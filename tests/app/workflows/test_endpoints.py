"""`/v1/workflows`, and runs of them."""

from typing import Any

import pytest

from tests.app.runs.test_forks import PLAN
from tests.fixtures.api import SCRIPT, Api

OTHER = SCRIPT.replace("input;", "[input];")


async def put(api: Api, name: str = "onboard", script: str = SCRIPT, **fields: Any) -> Any:
    return await api.call("PUT", f"/v1/workflows/{name}", json={"script": script, **fields})


async def listed(api: Api, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = (await api.call("GET", f"{path}?limit=1{after}")).json()
        found += page["data"]
        if page["next"] is None:
            return found
        after = f"&after={page['next']}"


async def test_a_workflow_has_versions(own_api: Api, clock: Any) -> None:
    api = own_api
    await api.toolset("support")
    first = (await put(api, toolset="support", description="Welcomes.")).json()
    assert first["toolset"].startswith("support@sha256:")
    assert (first["description"], first["input_type"], first["output_type"]) == ("Welcomes.", "any", "any")
    asked = api.desk.asked
    assert (await put(api, toolset="support", description="Welcomes.")).json() == first
    assert api.desk.asked == asked
    clock.advance(10)
    second = (await put(api, script=OTHER)).json()
    assert (second["id"], second["toolset"]) == (first["id"], None)
    assert second["digest"] != first["digest"]
    found = (await api.call("GET", "/v1/workflows/onboard")).json()
    assert found == {**second, "source": OTHER}
    at_first = (await api.call("GET", f"/v1/workflows/onboard@{first['digest']}")).json()
    assert (at_first["digest"], at_first["source"]) == (first["digest"], SCRIPT)
    versions = await listed(api, "/v1/workflows/onboard/versions")
    assert [one["digest"] for one in versions] == [second["digest"], first["digest"]]
    await put(api, "another")
    assert [one["name"] for one in await listed(api, "/v1/workflows")] == ["another", "onboard"]
    assert (await api.call("DELETE", "/v1/workflows/onboard")).status_code == 204
    assert (await api.call("GET", "/v1/workflows/onboard")).status_code == 404
    assert (await api.call("GET", "/v1/workflows/onboard/versions")).status_code == 404
    assert [one["name"] for one in await listed(api, "/v1/workflows")] == ["another"]


async def test_a_run_of_a_workflow(api: Api) -> None:
    api.desk.schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    pinned = await api.toolset("support")
    await put(api, toolset="support")
    await api.toolset("support", "another")
    asked = api.desk.asked
    run = await api.start(script=None, workflow="onboard", input={"n": 1})
    assert (run["workflow"], run["toolset"]) == ("onboard", f"support@{pinned['digest']}")
    assert api.desk.asked == asked  # it was checked when it was registered
    source = await api.call("GET", f"/v1/scripts/{run['script']}?namespace=acme")
    assert source.json()["source"] == SCRIPT
    refused = await api.call(
        "POST", "/v1/runs", json={"workflow": "onboard", "namespace": "acme", "input": {"n": "1"}}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "input_refused")
    assert refused.json()["errors"][0]["path"] == "input.n"
    both = {"workflow": "onboard", "toolset": "support", "namespace": "acme", "input": {"n": 1}}
    assert (await api.call("POST", "/v1/runs", json=both)).json()["errors"][0]["path"] == "toolset"
    await put(api, script=OTHER)
    assert (await api.call("GET", f"/v1/runs/{run['id']}?namespace=acme")).json()["script"] == run["script"]
    found = (await api.call("GET", "/v1/runs?namespace=acme&workflow=onboard")).json()["data"]
    assert [one["id"] for one in found] == [run["id"]]


@pytest.mark.parametrize("name", ["http", "tools", "then", "class", "a-b", "1a", "x" * 65, "a.b"])
async def test_names_that_no_workflow_has(api: Api, name: str) -> None:
    answer = await put(api, name)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert answer.json()["errors"][0]["path"] == "name"
    assert (await api.call("GET", f"/v1/workflows/{name}")).status_code == 404


async def test_what_cannot_be_registered(api: Api) -> None:
    for script, fields, status, code in (
        ("const x = 1;", {}, 422, "script_refused"),
        (SCRIPT, {"toolset": "none"}, 422, "unknown_toolset"),
        (SCRIPT, {"labels": {}}, 400, "invalid_request"),
        ("sha256:" + "0" * 64, {}, 404, "not_found"),
        ("x" * 262_145, {}, 413, "too_large"),
    ):
        answer = await put(api, script=script, **fields)
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert (await api.call("GET", "/v1/workflows")).json()["data"] == []


async def test_a_script_that_a_namespace_knows(api: Api) -> None:
    run = await api.start()
    answer = await api.call("PUT", "/v1/workflows/onboard?namespace=acme", json={"script": run["script"]})
    assert (answer.status_code, answer.json()["script"]) == (200, run["script"])


async def test_a_narrowed_token_sees_and_starts_its_workflows(api: Api) -> None:
    await put(api)
    await put(api, "secret")
    secret = await api.token("acme", narrow={"workflows": ["onboard"]})
    names = (await api.call("GET", "/v1/workflows", secret=secret)).json()["data"]
    assert [one["name"] for one in names] == ["onboard"]
    assert (await api.call("GET", "/v1/workflows/secret", secret=secret)).status_code == 403
    for name, status in (("onboard", 201), ("secret", 403)):
        answer = await api.call("POST", "/v1/runs", secret=secret, json={"workflow": name})
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("narrow", "statuses"),
    [
        ({"toolset": "support"}, [201, 403, 403]),
        ({"toolset": "support", "workflows": ["onboard", "other"]}, [201, 201, 403]),
        ({"workflows": ["bare"]}, [403, 403, 201]),
    ],
)
async def test_a_token_for_a_toolset_starts_and_forks_workflows_of_it(
    api: Api, narrow: dict[str, Any], statuses: list[int]
) -> None:
    """A workflow of another toolset is another toolset in the token's hands, unless the token names it."""
    api.desk.plan = {"report": PLAN, "gone": None}
    for name, toolset in (("onboard", "support"), ("other", "admin"), ("bare", None)):
        if toolset is not None:
            await api.toolset(toolset)
        await put(api, name, toolset=toolset)
    secret = await api.token("acme", narrow=narrow)
    found = []
    for name in ("onboard", "other", "bare"):
        answer = await api.call("POST", "/v1/runs", secret=secret, json={"workflow": name})
        found.append(answer.status_code)
        run = await api.start(script=None, workflow=name)
        await (await api.puppet(run["id"])).complete(1)
        fork = await api.call("POST", f"/v1/runs/{run['id']}/fork", secret=secret, json={})
        assert fork.status_code == answer.status_code, fork.text
    assert found == statuses


async def test_toolsets_pin_workflows(api: Api) -> None:
    missing = await api.call("POST", "/v1/toolsets", json={"name": "t", "workflows": ["onboard", "other"]})
    assert (missing.status_code, missing.json()["code"]) == (422, "toolset_invalid")
    assert [error["path"] for error in missing.json()["errors"]] == ["workflows[0]", "workflows[1]"]
    await put(api)

    async def register() -> dict[str, Any]:
        answer = await api.call("POST", "/v1/toolsets", json={"name": "t", "workflows": ["onboard"]})
        assert answer.status_code in {200, 201}, answer.text
        return dict(answer.json())

    first = await register()
    assert [(tool["name"], tool["kind"]) for tool in first["tools"]] == [
        ("workflows.onboard", "workflow"),
        ("workflows.onboard.start", "workflow"),
    ]
    assert (await register())["digest"] == first["digest"]
    await put(api, script=OTHER)
    assert (await api.call("GET", "/v1/toolsets/t")).json()["digest"] == first["digest"]
    assert (await register())["digest"] != first["digest"]


async def test_a_refresh_offers_newer_versions_and_moves_nothing_by_itself(api: Api) -> None:
    """Runs keep the version that they were started with; both tools of a workflow are accepted together."""
    await put(api)
    host = {"name": "echo", "description": "", "input_schema": {"type": "object"}}
    body = {"name": "t", "tools": [host], "workflows": ["onboard"]}
    first = (await api.call("POST", "/v1/toolsets", json=body)).json()

    async def refresh(accept: Any = None) -> dict[str, Any]:
        sent = {} if accept is None else {"accept": accept}
        answer = await api.call("POST", "/v1/toolsets/t/refresh", json=sent)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert await refresh() == {"changes": [], "digest": first["digest"]}
    await put(api, script=OTHER)
    offered = await refresh()
    assert offered["digest"] == first["digest"] == (await api.call("GET", "/v1/toolsets/t")).json()["digest"]
    assert [(one["tool"], one["change"]) for one in offered["changes"]] == [
        ("workflows.onboard", "changed"),
        ("workflows.onboard.start", "changed"),
    ]
    newest = (await api.call("GET", "/v1/workflows/onboard")).json()["digest"]
    for one in offered["changes"]:
        assert "workflow" in one["fields"]
        assert one["before"]["workflow"]["digest"] != one["after"]["workflow"]["digest"] == newest
    run = await api.start(toolset="t")
    wrong = await api.call("POST", "/v1/toolsets/t/refresh", json={"accept": ["echo"]})
    assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (422, "accept[0]")

    taken = await refresh(["workflows.onboard"])
    view = (await api.call("GET", "/v1/toolsets/t")).json()
    assert taken["digest"] == view["digest"] != first["digest"]
    assert [tool["name"] for tool in view["tools"]] == [
        "echo",
        "workflows.onboard",
        "workflows.onboard.start",
    ]
    assert {tool["workflow"]["digest"] for tool in view["tools"][1:]} == {newest}
    assert await refresh() == {"changes": [], "digest": view["digest"]}
    started = await api.call("GET", f"/v1/runs/{run['id']}?namespace=acme")
    assert started.json()["toolset"].endswith(first["digest"])
    await api.call("DELETE", "/v1/workflows/onboard")
    assert await refresh(accept=True) == {"changes": [], "digest": view["digest"]}
