"""Toolsets with MCP servers: what is pinned of them, and what is refused."""

import json
from typing import Any

import httpx2
import pytest

from tests.fixtures.api import Api
from tests.fixtures.cases import shared_cases
from tests.fixtures.hostile_mcp import JSON, HostileServer

OBJECT = {"type": "object"}


async def put(api: Api, *mcp: dict[str, Any], **fields: Any) -> httpx2.Response:
    return await api.call("POST", "/v1/toolsets", json={"name": "support", "mcp": list(mcp), **fields})


def listing(*tools: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"inputSchema": OBJECT, **tool} for tool in tools]


async def test_what_is_pinned_of_a_server(api: Api) -> None:
    async with HostileServer() as server:
        server.tools = listing(
            {"name": "write-file", "description": "Writes.", "annotations": {"idempotentHint": True}},
            {"name": "list", "annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object"}},
            {"name": "write_file", "title": "Other"},
            {"name": "then"},
        )
        host = {"name": "fs.local", "description": "", "input_schema": OBJECT}
        answer = await put(api, {"name": "fs", "url": server.url, "approval": ["write-file"]}, tools=[host])
        assert answer.status_code == 201, answer.text
        view = answer.json()
        shown = [
            (tool["name"], tool["original"], tool["kind"], tool["idempotent"], tool["approval"])
            for tool in view["tools"]
        ]
        assert shown == [
            ("fs.local", "fs.local", "host", False, None),
            ("fs.list", "list", "mcp", True, None),
            ("fs.write_file_2", "write-file", "mcp", True, True),
            ("fs.write_file", "write_file", "mcp", False, None),
        ]
        assert view["tools"][1]["output_schema"] == {"type": "object"}
        assert [tool["description"] for tool in view["tools"]] == ["", "", "Writes.", "Other"]
        [warning] = view["warnings"]
        assert "then" in warning
        assert server.url not in answer.text
        server.tools.reverse()  # another order is no other version
        again = await put(api, {"name": "fs", "url": server.url, "approval": ["write-file"]}, tools=[host])
        assert (again.status_code, again.json()["digest"]) == (200, view["digest"])


async def test_who_may_register_sees_the_servers_and_nobody_else(api: Api) -> None:
    await api.call("PUT", "/v1/secrets/k", json={"value": "the-value"})
    async with HostileServer() as server:
        server.tools = listing({"name": "a"})
        declared = {
            "name": "fs",
            "url": server.url,
            "auth": {"secret": "k"},
            "headers": {"x-a": {"secret": "k"}},
        }
        await put(api, declared, http={"allow": ["api.example.com"]}, secrets="fallback")
        shown = await api.call("GET", "/v1/toolsets/support")
        assert shown.json()["mcp"] == [declared]
        assert (shown.json()["http"], shown.json()["secrets"]) == ({"allow": ["api.example.com"]}, "fallback")
        assert "the-value" not in shown.text
        reader = (await api.call("POST", "/v1/keys", json={"scopes": ["runs:read"]})).json()["key"]
        for secret in (reader, await api.token("acme")):
            answer = await api.call("GET", "/v1/toolsets/support", secret=secret)
            assert answer.status_code == 200
            assert set(answer.json()) == {"id", "name", "digest", "tools", "warnings"}
            assert server.url not in answer.text


async def test_what_makes_another_version(api: Api) -> None:
    async with HostileServer() as server:
        server.tools = listing({"name": "a"})
        await api.call("PUT", "/v1/secrets/k", json={"value": "x"})
        base = {"name": "fs", "url": server.url}
        digests = [
            (await put(api, {**base, **change})).json()["digest"]
            for change in ({}, {"url": server.url + "/"}, {"auth": {"secret": "k"}}, {"headers": {"x-a": "1"}},
                           {"results": {"a": "text"}}, {"approval": True})
        ]  # fmt: skip
        digests.append((await put(api, base, secrets="namespace")).json()["digest"])
        server.tools = listing({"name": "a", "description": "changed"})
        digests.append((await put(api, base)).json()["digest"])
        assert len(set(digests)) == len(digests)


async def test_a_broken_server_is_named(api: Api) -> None:
    async with HostileServer() as fine, HostileServer() as broken:
        broken.list_answer = (500, JSON, b"{}")
        answer = await put(api, {"name": "good", "url": fine.url}, {"name": "bad", "url": broken.url})
        assert (answer.status_code, answer.json()["code"]) == (422, "toolset_invalid")
        (error,) = answer.json()["errors"]
        assert (error["path"], "bad" in error["message"]) == ("mcp[1]", True)
        assert broken.url not in answer.text
    gone = await put(api, {"name": "gone", "url": broken.url})
    assert "no connection" in gone.json()["errors"][0]["message"]
    assert "see that it runs" in gone.json()["errors"][0]["message"]
    private = await put(api, {"name": "inner", "url": "http://10.0.0.1/mcp"})
    assert "REWIND_EGRESS_ALLOW" in private.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    ("answered", "advice"),
    [
        (401, "name the secret with its credential"),
        (404, "the path of its URL is right"),
        (405, "for MCP"),
        (500, "500"),
    ],
)
async def test_what_to_do_about_a_server_is_said(api: Api, answered: int, advice: str) -> None:
    async with HostileServer() as server:
        server.list_answer = (answered, "text/plain", b"no")
        refused = await put(api, {"name": "one", "url": server.url})
    assert advice in refused.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    "answer",
    [(200, JSON, b"nope"), (200, "text/html", b"<html>"), (401, "text/plain", b"who?"), (202, JSON, b""),
     (200, JSON, b'{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":1}]}}'), (302, JSON, b"")],
)  # fmt: skip
async def test_lists_that_are_none(api: Api, answer: tuple[int, str, bytes]) -> None:
    async with HostileServer() as server:
        server.list_answer = answer
        refused = await put(api, {"name": "bad", "url": server.url})
        assert (refused.status_code, refused.json()["code"]) == (422, "toolset_invalid"), refused.text
        assert refused.json()["errors"][0]["path"] == "mcp[0]"


@pytest.mark.parametrize(
    ("server", "path", "status"),
    [
        ({"name": "http"}, "mcp[0].name", 422),
        ({"name": "a-b"}, "mcp[0].name", 422),
        ({"url": "ftp://x/"}, "mcp[0].url", 422),
        ({"url": "https://user:pass@example.com/"}, "mcp[0].url", 422),
        ({"url": "https://exa mple.com/"}, "mcp[0].url", 422),
        ({"url": "https://example.com:99999/"}, "mcp[0].url", 422),
        ({"url": "http://10.0.0.1/mcp"}, "mcp[0]", 422),
        ({"url": "http://169.254.169.254/mcp"}, "mcp[0]", 422),
        ({"headers": {"host": "x"}}, "mcp[0].headers.host", 422),
        ({"headers": {"mcp-session-id": "x"}}, "mcp[0].headers.mcp-session-id", 422),
        ({"headers": {"x-a": "a\r\nb: c"}}, "mcp[0].headers.x-a", 422),
        ({"headers": {"authorization": "x"}, "auth": {"secret": "k"}}, "mcp[0].headers.authorization", 422),
        ({"auth": {"secret": "a b"}}, "mcp[0].auth", 422),
        ({"auth": {"secret": "unknown"}}, "mcp[0]", 422),
        ({"approval": "all"}, "mcp[0].approval", 422),
        ({"approval": ["fine", "nope"]}, "mcp[0].approval.nope", 422),
        ({"results": {"nope": "text"}}, "mcp[0].results.nope", 422),
        ({"results": {"fine": "xml"}}, "mcp[0].results.fine", 400),
        ({"auth": "k"}, "mcp[0].auth", 400),
        ({"other": 1}, "mcp[0].other", 400),
        ({"pin_as": "nobody"}, "", 404),
    ],
)
async def test_servers_that_are_refused(api: Api, server: dict[str, Any], path: str, status: int) -> None:
    async with HostileServer() as running:
        answer = await put(api, {"name": "fs", "url": running.url, **server})
        assert answer.status_code == status, answer.text
        if path:
            assert path in [error["path"] for error in answer.json()["errors"]], answer.text
        assert "pass@" not in answer.text


async def test_names_that_collide(api: Api) -> None:
    async with HostileServer() as server:
        here = {"name": "fs", "url": server.url}
        for fields, mcp in (
            ({"tools": [{"name": "fs", "description": "", "input_schema": OBJECT}]}, [here]),
            ({"tools": [{"name": "fs.fine", "description": "", "input_schema": OBJECT}]}, [here]),
            ({}, [here, here]),
        ):
            answer = await put(api, *mcp, **fields)
            assert answer.json()["errors"][0]["code"] == "duplicate_name", answer.text


async def test_whose_secrets_list_the_tools(api: Api) -> None:
    async with HostileServer() as server:
        await api.call("PUT", "/v1/secrets/k", json={"value": "of-org"})
        await api.call("PUT", "/v1/secrets/k", json={"value": "of-acme", "namespace": "acme"})
        here = {"name": "fs", "url": server.url, "auth": {"secret": "k"}}
        assert (await put(api, here)).status_code == 201
        assert server.headers[-1]["authorization"] == "Bearer of-org"
        assert (await put(api, {**here, "pin_as": "acme"})).status_code == 200  # pins the same
        assert server.headers[-1]["authorization"] == "Bearer of-acme"
        refused = await put(api, here, secrets="namespace")
        assert "pin_as" in refused.json()["errors"][0]["message"]
        assert (await put(api, {**here, "pin_as": "acme"}, secrets="namespace")).status_code == 201


async def test_a_refresh_says_what_changed_and_moves_nothing_unless_accepted(api: Api) -> None:
    async with HostileServer() as server:
        server.tools = listing({"name": "kept"}, {"name": "gone"}, {"name": "new-text", "description": "old"})
        approval = {"approval": ["gone"]}
        first = (await put(api, {"name": "fs", "url": server.url, **approval})).json()

        async def refresh(accept: Any = None) -> httpx2.Response:
            body = None if accept is None else {"accept": accept}
            return await api.call("POST", "/v1/toolsets/support/refresh", json=body)

        async def pinned() -> dict[str, Any]:
            return dict((await api.call("GET", "/v1/toolsets/support")).json())

        assert (await refresh()).json() == {"changes": [], "digest": first["digest"]}
        server.tools = listing(
            {"name": "kept"}, {"name": "new-text", "description": "new"}, {"name": "added"}
        )
        looked = (await refresh()).json()
        found = [(one["tool"], one["server"], one["change"], one["fields"]) for one in looked["changes"]]
        assert found == [
            ("fs.added", "fs", "added", []),
            ("fs.gone", "fs", "removed", []),
            ("fs.new_text", "fs", "changed", ["description"]),
        ]
        changed = looked["changes"][2]
        assert (changed["before"]["description"], changed["after"]["description"]) == ("old", "new")
        assert (looked["changes"][0]["before"], looked["changes"][1]["after"]) == (None, None)
        view = await pinned()
        assert looked["digest"] == view["digest"] == first["digest"]
        shown = {tool["name"]: tool.get("disabled") for tool in view["tools"]}
        assert set(shown) == {"fs.kept", "fs.gone", "fs.new_text"}
        assert [name for name, why in shown.items() if why] == ["fs.gone"]
        assert "does not list it" in shown["fs.gone"]
        assert [tool["approval"] for tool in view["tools"] if tool["name"] == "fs.gone"] == [True]

        refused = await refresh(["fs.added", "fs.kept"])
        assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "accept[1]")
        some = (await refresh(["fs.added"])).json()
        view = await pinned()
        assert some["digest"] == view["digest"] != first["digest"]
        assert {tool["name"] for tool in view["tools"]} == {"fs.kept", "fs.gone", "fs.new_text", "fs.added"}
        assert [one["tool"] for one in (await refresh()).json()["changes"]] == ["fs.gone", "fs.new_text"]
        everything = (await refresh(accept=True)).json()
        view = await pinned()
        assert everything["digest"] == view["digest"]
        assert {tool["name"]: tool["description"] for tool in view["tools"]} == {
            "fs.kept": "", "fs.new_text": "new", "fs.added": "",
        }  # fmt: skip
        assert not any("disabled" in tool for tool in view["tools"])
        assert (await refresh(accept=True)).json() == {"changes": [], "digest": view["digest"]}
        old = await api.call("GET", f"/v1/toolsets/support@{first['digest']}")
        assert len(old.json()["tools"]) == 3
    away = await refresh()
    assert (away.status_code, away.json()["code"]) == (422, "toolset_invalid")
    assert (await pinned())["digest"] == view["digest"]


async def test_a_refresh_of_what_has_no_servers(api: Api) -> None:
    view = await api.toolset("support", "echo")
    answer = await api.call("POST", "/v1/toolsets/support/refresh", json={"accept": True})
    digest = (await api.call("GET", "/v1/toolsets/support")).json()["digest"]
    assert (answer.status_code, answer.json()) == (200, {"changes": [], "digest": digest}), view
    wrong = await api.call("POST", "/v1/toolsets/support/refresh", json={"accept": ["echo"]})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "toolset_invalid")
    for body in ({"accept": "all"}, {"accept": [1]}, {"other": 1}):
        bad = await api.call("POST", "/v1/toolsets/support/refresh", json=body)
        assert (bad.status_code, bad.json()["code"]) == (400, "invalid_request"), body
    assert (await api.call("POST", "/v1/toolsets/none/refresh")).status_code == 404


async def test_a_repeated_registration_asks_no_server(api: Api) -> None:
    body = {"name": "support"}
    headers = {"Idempotency-Key": "once"}
    async with HostileServer() as server:
        server.tools = listing({"name": "a"})
        body["mcp"] = [{"name": "fs", "url": server.url}]  # type: ignore[assignment]
        made = await api.call("POST", "/v1/toolsets", json=body, headers=headers)
        assert made.status_code == 201
    again = await api.call("POST", "/v1/toolsets", json=body, headers=headers)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (200, "true"), again.text
    assert again.json()["digest"] == made.json()["digest"]
    other = await api.call("POST", "/v1/toolsets", json={**body, "secrets": "fallback"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")


async def test_lists_of_real_servers(api: Api) -> None:
    """Ten public servers, as they list their tools."""
    for case in sorted(shared_cases("mcp-tools").glob("*.json")):
        tools = json.loads(case.read_text())["tools"]
        async with HostileServer() as server:
            server.tools = tools
            answer = await put(api, {"name": "real", "url": server.url})
            assert answer.status_code in {200, 201}, f"{case.name}: {answer.text[:2000]}"
            assert sorted(tool["original"] for tool in answer.json()["tools"]) == sorted(
                tool["name"] for tool in tools
            )
