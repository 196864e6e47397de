"""One call of an MCP tool: how long it may take, who is told that nobody waits, when it is made again."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from app.dispatcher import mcp_http
from app.dispatcher.breaker import FAILURES_MAX, OPEN_S
from app.scheduler.loop import fire_due
from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.e2e.stack import eventually, pause
from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.mcp_versions import MODERN, VersionServer, text_result
from tests.fixtures.web_server import Asked, Reply, Stream, WebServer

VERSIONS = ["2025-03-26", "2025-11-25", MODERN]
TEXT = (("Content-Type", "text/plain"),)
SSE = (("Content-Type", "text/event-stream"),)


class Tools(VersionServer):
    """`does`: what a call of any tool is answered with."""

    def __init__(
        self, version: str, does: "Callable[[Tools, dict[str, Any]], Reply | Stream | None]", **fields: Any
    ) -> None:
        super().__init__(version, **fields)
        self.does = does

    def called(self, message: dict[str, Any]) -> Reply | Stream | None:
        return self.does(self, message)


def progressing(server: Tools, message: dict[str, Any], *, parts: int | None) -> Stream:
    """A stream of progress, asked for or not; then the result, unless it goes on for ever."""
    params = message["params"]
    token = params["_meta"].get("progressToken", "nobody-asked")

    async def stream() -> AsyncIterator[bytes]:
        number = 0
        while parts is None or number < parts:
            number += 1
            told = {"progressToken": token, "progress": number, "message": "still at it"}
            note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
            yield b"data: " + json.dumps(note).encode() + b"\n\n"
            await pause(0.01)
        result: dict[str, Any] = text_result("done")
        if server.version == MODERN:
            result["resultType"] = "complete"
        yield b"data: " + server.body({"id": message["id"], "result": result}) + b"\n\n"

    return Stream(stream())


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_is_heard_and_changes_nothing(api: Api, version: str) -> None:
    server = Tools(version, lambda server, message: progressing(server, message, parts=20))
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        (entry,) = await outcomes(api, run)
        assert (entry["result"]["value"], entry["attempts"]) == ("done", 1)
        journal = (await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")).json()["data"]
        assert [line["type"] for line in journal] == [
            "run_started",
            "schedule_tool_call",
            "tool_call_completed",
        ]
    assert server.faults == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_lengthens_no_timeout_and_the_server_is_told(
    api: Api, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that nobody waits any more; 2026-07-28 has none: there the connection says it. It is closed in all."""
    monkeypatch.setattr(mcp_http, "ABANDONED_S", 0.2)
    server = Tools(version, lambda server, message: progressing(server, message, parts=None))
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet", timeout_ms=3_000)
        (entry,) = await outcomes(api, run)
        assert (entry["error"]["code"], entry["error"]["retryable"]) == ("timeout", True)

        async def told() -> bool:
            return len(web.left) == 1 and len(server.cancelled) == (version != MODERN)

        await eventually(told, what="the server told", within_s=20)
        assert json.loads(web.left[0].body)["method"] == "tools/call"
        assert [json.loads(web.left[0].body)["id"]] * len(server.cancelled) == server.cancelled
    assert server.faults == []


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_that_is_told_to_stop_lets_its_server_know(
    api: Api, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its run is cancelled, or its script aborts it: the outcome is unknown, and recorded once."""
    monkeypatch.setattr(mcp_http, "ABANDONED_S", 0.2)
    server = Tools(version, lambda *_: None)
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        await asyncio.wait_for(web.hanging.wait(), 30)
        await puppet.stop_calls()
        (entry,) = await outcomes(api, run)
        assert (entry["error"]["name"], entry["error"]["code"]) == ("OutcomeUnknownError", None)

        async def told() -> bool:
            return len(web.left) == 1 and len(server.cancelled) == (version != MODERN)

        await eventually(told, what="the server told", within_s=20)
    assert len(server.keys) == 1


async def test_calls_that_met_an_expired_session_at_once(api: Api) -> None:
    """All of them are refused, one new session is made, and each call is executed once in it."""
    count = 12
    waiting: list[dict[str, Any]] = []
    gate = asyncio.Event()

    def does(server: Tools, message: dict[str, Any]) -> Reply | Stream:
        if not gate.is_set():
            waiting.append(message)
            if len(waiting) == count:
                gate.set()

            async def refused() -> AsyncIterator[bytes]:
                await gate.wait()
                error = {"code": -32001, "message": "Session not found"}
                yield b"data: " + server.body({"id": message["id"], "error": error}) + b"\n\n"

            return Stream(refused())
        return server.result(message, text_result("done"))

    server = Tools("2025-11-25", does)
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        before = server.methods.count("initialize")
        run, puppet = await begin(api)
        for _ in range(count):
            await call(puppet, api, "s0.greet")
        found = await outcomes(api, run, count)
        assert [entry["result"]["value"] for entry in found] == ["done"] * count
        assert sorted(entry["call"] for entry in found) == list(range(1, count + 1))
        assert server.methods.count("initialize") - before == 2
        assert len(server.keys) == 2 * count


async def test_a_resumed_answer_that_never_ends_is_given_up_too(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_http, "ABANDONED_S", 0.2)
    server = Tools("2025-11-25", lambda *_: Reply(200, b"retry: 1\nid: e1\ndata:\n\n", SSE, cut=True))

    async def silent() -> AsyncIterator[bytes]:
        yield b": here\n\n"
        await asyncio.Event().wait()

    def serve(asked: Asked) -> Reply | Stream | None:
        return Stream(silent()) if asked.headers.get("last-event-id") == "e1" else server(asked)

    async with WebServer(serve) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet", timeout_ms=1_000)
        (entry,) = await outcomes(api, run)
        assert entry["error"]["code"] == "timeout"

        async def given_up() -> bool:
            return [asked.method for asked in web.left] == ["GET"]

        await eventually(given_up, what="the end of the resumed answer", within_s=20)
    assert len(server.keys) == 1


FAILURES: dict[str, tuple[Callable[[Tools, dict[str, Any]], Reply | None], int, int]] = {
    # What happens, and how often the server sees the call: of a tool that may not be repeated, and of one that may.
    "isError": (lambda server, message: server.result(message, text_result("no", isError=True)), 3, 3),
    "its own error": (lambda server, message: server.error(message, -32050, "no", 200), 3, 3),
    "429": (lambda *_: Reply(429, b"slowly", TEXT), 3, 3),
    "500": (lambda *_: Reply(500, b"oh", TEXT), 3, 3),
    "503": (lambda *_: Reply(503, b"later", TEXT), 1, 3),
    "broken": (lambda *_: Reply(200, b"{", (("Content-Type", "application/json"),), cut=True), 1, 3),
    "401": (lambda *_: Reply(401), 1, 1),
    "no result": (lambda server, message: server.result(message, {"content": 1}), 1, 1),
    "bad arguments": (lambda server, message: server.error(message, -32602, "no such field", 200), 1, 1),
    "timeout": (lambda *_: None, 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["not to be repeated", "idempotent"])
async def test_what_is_made_again(api: Api, kind: str) -> None:
    """Failures of the tool, and of the way there as long as the call cannot have taken effect; with the same key."""
    idempotent = kind == "idempotent"
    servers = {name: Tools("2025-11-25", does) for name, (does, _, _) in FAILURES.items()}
    retry = {"attempts": 3, "backoff": "40ms", "max": "60ms"}
    webs = [WebServer(server) for server in servers.values()]
    for server in servers.values():
        server.tools[0]["annotations"] = {"idempotentHint": idempotent}
    try:
        urls = [f"{(await web.__aenter__()).url}/mcp" for web in webs]
        async with dispatching(api):
            await pin(api, *urls, retry=retry)
            run, puppet = await begin(api)
            numbers = {}
            for index, name in enumerate(servers):
                draft = {"timeout_ms": 300} if name == "timeout" else {}
                numbers[await call(puppet, api, f"s{index}.greet", idempotent=idempotent, **draft)] = name
            found = await outcomes(api, run, len(servers))
            seen = {
                numbers[entry["call"]]: (entry["attempts"], len(servers[numbers[entry["call"]]].keys))
                for entry in found
            }
            wanted = {
                name: (times, times)
                for name, (_, *counts) in FAILURES.items()
                for times in [counts[idempotent]]
            }
            assert seen == wanted
            assert len(found) == len(servers)
            for number, name in numbers.items():
                assert set(servers[name].keys) == {f"{run}/{number}"}
    finally:
        for web in webs:
            await web.__aexit__()


async def test_a_call_that_succeeds_at_last(api: Api) -> None:
    """The attempts wait for each other: 60 ms, then twice that, at most 100; the outcome is recorded once."""
    at: list[float] = []

    def does(server: Tools, message: dict[str, Any]) -> Reply | Stream:
        at.append(asyncio.get_running_loop().time())
        return server.result(message, text_result("no", isError=len(at) < 4))

    async with WebServer(Tools(MODERN, does)) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp", retry={"attempts": 5, "backoff": "60ms", "max": "100ms"})
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        (entry,) = await outcomes(api, run)
        assert (entry["result"]["value"], entry["attempts"]) == ("no", 4)
    gaps = [after - before for before, after in itertools.pairwise(at)]
    assert all(gap >= least for gap, least in zip(gaps, (0.06, 0.1, 0.1), strict=True)), gaps


async def test_a_call_that_is_told_to_stop_between_attempts_is_not_made_again(
    own_api: Api, clock: Clock
) -> None:
    """It has begun, and what it did is not known: after 30 s that is its outcome."""
    api = own_api
    server = Tools(MODERN, lambda server, message: server.result(message, text_result("no", isError=True)))
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp", retry={"attempts": 50, "backoff": "10s", "max": "10s"})
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")

        async def offered_again() -> bool:
            row = await api.store.pool.system.fetchrow(
                "select claim_id, attempt from pending where run_id = $1 and kind = 0", run
            )
            return row is not None and row["claim_id"] is None and row["attempt"] == 1

        await eventually(offered_again, what="the end of the first attempt")
        await puppet.stop_calls()
        clock.advance(30_001)
        await fire_due(api.store)
        (entry,) = await outcomes(api, run)
        assert (entry["error"]["name"], entry["attempts"]) == ("OutcomeUnknownError", 1)
    assert len(server.keys) == 1


RESULTS: list[tuple[dict[str, Any], Any]] = [
    (text_result("plain", structuredContent={"n": 1}), "plain"),
    ({"content": [], "structuredContent": {"n": 1}}, ""),
    ({"content": []}, ""),
    (text_result("[1, 2]"), [1, 2]),
    (text_result(" [1]"), " [1]"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "isError": True}, ("tool_failed", "a\nb")),
    ({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}], "isError": True},
     ("tool_failed", "the tool failed and did not say why")),
]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
async def test_results_of_a_tool_without_output_schema(api: Api, version: str) -> None:
    answers = iter([result for result, _ in RESULTS])
    async with (
        WebServer(Tools(version, lambda server, message: server.result(message, next(answers)))) as web,
        dispatching(api),
    ):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        for number, (_, wanted) in enumerate(RESULTS, start=1):
            await call(puppet, api, "s0.greet")
            entry = (await outcomes(api, run, number))[-1]
            got = (
                entry["result"]["value"]
                if "result" in entry
                else (entry["error"]["code"], entry["error"]["message"])
            )
            assert got == wanted


async def test_an_idle_connection_is_given_up_before_servers_do(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Common servers close after 5 s: a call that meets one closing has an unknown outcome. So after 4 s: another."""
    later_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + later_s)
    async with WebServer(VersionServer(MODERN)) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        monkeypatch.setattr("httpcore2._async.http11.time", clock)
        opened = []
        for number, idle_s in enumerate((0.0, 3.5, 4.1, 3.5), start=1):
            later_s += idle_s
            await call(puppet, api, "s0.greet")
            await outcomes(api, run, number)
            opened.append(web.connections)
        first = opened[0]
        assert opened == [first, first, first + 1, first + 1]


async def test_a_server_that_was_away_is_tried_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The circuit breaker over HTTP: open after so many failures, then one call finds out for all."""
    later_s = 0.0
    monkeypatch.setattr(
        "app.dispatcher.mcp.time", SimpleNamespace(monotonic=lambda: time.monotonic() + later_s)
    )
    server = VersionServer(MODERN)
    async with WebServer(server) as web:
        pinned = await pin(api, f"{web.url}/mcp")
        port = int(web.host.partition(":")[2])
    assert pinned["warnings"] == []
    async with dispatching(api):
        run, puppet = await begin(api)

        async def next_call() -> Any:
            number = await call(puppet, api, "s0.greet")
            entry = (await outcomes(api, run, number))[-1]
            return entry["result"]["value"] if "result" in entry else entry["error"]["message"]

        for _ in range(FAILURES_MAX):
            assert "no connection to the server" in await next_call()
        async with WebServer(server, port) as back:
            assert "it is tried again in" in await next_call()
            assert back.connections == 0
            later_s += OPEN_S
            assert await next_call() == f"{MODERN} greets nobody"
            assert await next_call() == f"{MODERN} greets nobody"
    assert len(server.keys) == 2
