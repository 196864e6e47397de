"""MCP servers of every version that we speak, as strict as the versions are; and servers that change theirs."""

from typing import Any

import pytest

from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.fixtures.api import Api
from tests.fixtures.mcp_versions import MODERN, VERSIONS, VersionServer
from tests.fixtures.web_server import Asked, Reply, Stream, WebServer

HANDSHAKE = [version for version in VERSIONS if version != MODERN]
SHAPES: list[Any] = [
    *((version, {"sessions": sessions, "sse": sse})
      for version in HANDSHAKE for sessions in (True, False) for sse in (True, False)),
    *((MODERN, {"sse": sse}) for sse in (True, False)),
    *(("2025-03-26", {"batches": True, "sse": sse}) for sse in (True, False)),
]  # fmt: skip


class Changing:
    """A server whose version changes while we know it."""

    def __init__(self, server: VersionServer) -> None:
        self.server = server

    def __call__(self, asked: Asked) -> Reply | Stream | None:
        return self.server(asked)


def greeting(entry: dict[str, Any]) -> Any:
    return (
        entry["result"]["value"] if "result" in entry else (entry["error"]["code"], entry["error"]["message"])
    )


@pytest.mark.parametrize(("version", "shape"), SHAPES, ids=str)
async def test_each_version_is_spoken_properly(api: Api, version: str, shape: dict[str, Any]) -> None:
    server = VersionServer(version, **shape)
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        for number in (1, 2):
            await call(puppet, api, "s0.greet", {"name": "Ada"})
            found = await outcomes(api, run, number)
        assert [greeting(entry) for entry in found] == [f"{version} greets Ada"] * 2
        assert server.keys == [f"{run}/1", f"{run}/2"]
    assert server.faults == []
    handshakes = server.methods.count("initialize")
    assert handshakes == (0 if version == MODERN else 2)  # one session to list the tools, one for the calls
    assert set(server.offered) <= {HANDSHAKE[-1]}
    assert server.methods.count("server/discover") == 1  # asked when it was registered, and remembered


@pytest.mark.parametrize(
    ("before", "after"),
    [(MODERN, "2025-11-25"), (MODERN, "2025-03-26"), ("2025-06-18", MODERN), ("2025-11-25", "2025-03-26")],
)
async def test_a_server_that_speaks_another_version_by_now(api: Api, before: str, after: str) -> None:
    """An upgrade, or one taken back: the next call agrees anew, and is executed once."""
    changing = Changing(VersionServer(before))
    async with WebServer(changing) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        await outcomes(api, run)
        changing.server = VersionServer(after)
        for number in (2, 3):
            await call(puppet, api, "s0.greet")
            found = await outcomes(api, run, number)
        assert [greeting(entry) for entry in found] == [
            f"{before} greets nobody", *[f"{after} greets nobody"] * 2,
        ]  # fmt: skip
        assert changing.server.keys == [f"{run}/2", f"{run}/3"]
        assert [entry["attempts"] for entry in found] == [1, 1, 1]
    assert [fault for fault in changing.server.faults if "session" not in fault] == []


@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
async def test_a_version_that_we_do_not_speak(api: Api, version: str) -> None:
    """By a handshake that is answered with it, or by a server without handshake: both versions are named."""
    server = VersionServer(version, offers="2099-01-01")
    if version == MODERN:
        server.version = "2099-01-01"
    async with WebServer(server) as web:
        body = {"name": "support", "mcp": [{"name": "s0", "url": f"{web.url}/mcp"}]}
        answer = await api.call("POST", "/v1/toolsets", json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, "toolset_invalid")
        said = answer.json()["errors"][0]["message"]
        assert (
            said
            == f"The server 's0': the server speaks MCP 2099-01-01, and Rewind speaks 2024-11-05, {', '.join(VERSIONS)}."
        )
    assert "tools/list" not in server.methods


async def test_batches_are_of_one_version_only(api: Api) -> None:
    for version in HANDSHAKE[1:]:
        server = VersionServer(version, batches=True)
        async with WebServer(server) as web:
            body = {"name": "support", "mcp": [{"name": "s0", "url": f"{web.url}/mcp"}]}
            answer = await api.call("POST", "/v1/toolsets", json=body)
            assert "no JSON-RPC message" in answer.json()["errors"][0]["message"], version


MIRRORING = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "x-mcp-header": "Greeted"},
        "loud": {"type": "boolean", "x-mcp-header": "Loud"},
        "times": {"type": "integer", "x-mcp-header": "Times"},
    },
}


async def test_arguments_that_a_server_wants_in_headers(api: Api) -> None:
    """2026-07-28 refuses a call whose headers do not say what its arguments do; before, there are no such headers."""
    given = ({"name": "Ada", "loud": True, "times": 3}, {"name": " ünï\n"}, {})
    for version in (MODERN, "2025-11-25"):
        server = VersionServer(version, schema=MIRRORING)
        async with WebServer(server) as web, dispatching(api):
            await pin(api, f"{web.url}/mcp")
            run, puppet = await begin(api)
            for number, args in enumerate(given, start=1):
                await call(puppet, api, "s0.greet", args)
                found = await outcomes(api, run, number)
            assert [greeting(entry) for entry in found] == [
                f"{version} greets {args.get('name', 'nobody')}" for args in given
            ]
            sent = [name for asked in web.asked for name in asked.headers if name.startswith("mcp-param-")]
            assert len(sent) == (4 if version == MODERN else 0)
        assert server.faults == []


async def test_a_tool_whose_headers_are_wrong_is_disabled(api: Api) -> None:
    wrong = {"type": "object", "properties": {"n": {"type": "number", "x-mcp-header": "N"}}}
    for version, disabled in ((MODERN, True), ("2025-11-25", False)):
        async with WebServer(VersionServer(version, schema=wrong)) as web:
            pinned = await pin(api, f"{web.url}/mcp")
        [tool] = pinned["tools"]
        assert ("disabled" in tool) is disabled
        assert all("'greet'" in warning and "x-mcp-header" in warning for warning in pinned["warnings"])
        assert bool(pinned["warnings"]) is disabled


async def test_what_a_status_cannot_say_is_in_the_body(api: Api) -> None:
    """2026-07-28 answers with a status of 400 or 404 where the versions before answered 200: the error counts."""
    server = VersionServer(MODERN)
    server.tools.append({"name": "gone", "inputSchema": {"type": "object"}})
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.gone")
        (entry,) = await outcomes(api, run)
        assert greeting(entry) == ("tool_removed", "Unknown tool: gone")
    assert server.faults == []


async def test_a_session_is_kept_whatever_a_tool_answers(api: Api) -> None:
    """What a server has in its session, a browser say, is not given up for an error that servers use for all sorts."""

    class Refusing(VersionServer):
        def called(self, message: dict[str, Any]) -> Reply | Stream | None:
            code = int(message["params"]["arguments"]["code"])
            return self.error(message, code, "the tool says no", 200)

    server = Refusing("2025-11-25")
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        before = server.methods.count("initialize")
        run, puppet = await begin(api)
        for number, code in enumerate((-32000, -32600, -32601, -32603), start=1):
            await call(puppet, api, "s0.greet", {"code": code})
            found = await outcomes(api, run, number)
            assert greeting(found[-1]) == ("tool_failed", "the tool says no")
        assert server.methods.count("initialize") == before + 1
        assert len(server.keys) == number
