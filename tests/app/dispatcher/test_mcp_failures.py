"""MCP servers that forget, break off, resume, echo what they were shown; tokens by OAuth; the circuit breaker."""

import json
from base64 import b64decode
from typing import Any
from urllib.parse import parse_qs

from app.dispatcher.breaker import FAILURES_MAX, OPEN_S, Breaker
from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.fixtures.api import Api
from tests.fixtures.hostile_mcp import HostileServer
from tests.fixtures.web_server import Asked, Reply, WebServer

JSON = (("Content-Type", "application/json"),)
SSE = (("Content-Type", "text/event-stream"),)
TEXT = {"content": [{"type": "text", "text": "done"}]}


class Sessions:
    """An MCP server of 2025-06-18 as a handler: `answer` says what becomes of a call."""

    def __init__(self, tools: list[str]) -> None:
        self.tools = tools
        self.session = 0
        self.calls: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.forgotten: Reply | None = None
        """What a call in the first session is answered with."""
        self.results: dict[str, Any] = {}

    def __call__(self, asked: Asked) -> Reply:
        self.headers.append(asked.headers)
        if asked.method == "GET":
            return self.resumed(asked)
        if asked.method == "DELETE" or not asked.body:
            return Reply(200)
        message = json.loads(asked.body)
        if message["method"] == "server/discover":
            return Reply(400)
        if "id" not in message:
            return Reply(202)
        if message["method"] == "initialize":
            self.session += 1
            made = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
            return self.result(message["id"], made, (("Mcp-Session-Id", f"s{self.session}"),))
        if message["method"] == "tools/list":
            listed = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
            return self.result(message["id"], {"tools": listed})
        self.calls.append(message["params"]["name"])
        if self.forgotten is not None and asked.headers.get("mcp-session-id") != f"s{self.session}":
            return self.forgotten
        return self.answer(message)

    def resumed(self, asked: Asked) -> Reply:
        return Reply(405)

    def answer(self, message: dict[str, Any]) -> Reply:
        return self.result(message["id"], self.results.get(message["params"]["name"], TEXT))

    def result(self, id_: Any, result: Any, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        return Reply(
            200, json.dumps({"jsonrpc": "2.0", "id": id_, "result": result}).encode(), (*JSON, *headers)
        )


def rpc_error(code: int, message: str, id_: Any = 1) -> Reply:
    error = {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": message}}
    return Reply(200, json.dumps(error).encode(), JSON)


async def test_o27_a_session_that_is_gone_is_made_anew_and_the_call_done_once(api: Api) -> None:
    """Row O27: 404, 400 and, with status 200, an error that says so; each outcome is recorded once."""

    class Forgetful(Sessions):
        forget: Reply | None = None
        done = 0

        def answer(self, message: dict[str, Any]) -> Reply:
            if self.forget is not None:
                forgotten, self.forget = self.forget, None
                return (
                    forgotten
                    if forgotten.status != 200
                    else rpc_error(-32001, "Session not found", message["id"])
                )
            self.done += 1
            return super().answer(message)

    handler = Forgetful(["t"])
    async with WebServer(handler) as server, dispatching(api):
        await pin(api, f"{server.url}/mcp")
        run, puppet = await begin(api)
        replies = [
            Reply(404, b"no"),
            Reply(400, b'{"error":{"code":-32000,"message":"Bad Request: no session"}}', JSON),
            Reply(200),
        ]
        for number, forgotten in enumerate(replies, start=1):
            before = handler.session
            handler.forget = forgotten
            await call(puppet, api, "s0.t")
            found = await outcomes(api, run, number)
            assert found[-1]["result"]["value"] == "done"
            assert handler.session > before
        assert (handler.done, [entry["attempts"] for entry in found]) == (3, [1, 1, 1])


async def test_a_stream_that_breaks_off_is_resumed(api: Api) -> None:
    """Progress first, then the connection ends; the answer comes on the stream that asks for the rest."""

    class Breaking(Sessions):
        resumes = 0
        waiting: Any = None

        def answer(self, message: dict[str, Any]) -> Reply:
            self.waiting = message["id"]
            note = {
                "jsonrpc": "2.0",
                "method": "notifications/message",
                "params": {"level": "info", "data": "half"},
            }
            return Reply(200, f"retry: 10\nid: e1\ndata: {json.dumps(note)}\n\n".encode(), SSE, cut=True)

        def resumed(self, asked: Asked) -> Reply:
            if asked.headers.get("last-event-id") != "e1":
                return Reply(405)
            self.resumes += 1
            result = {"jsonrpc": "2.0", "id": self.waiting, "result": TEXT}
            return Reply(200, f"id: e2\ndata: {json.dumps(result)}\n\n".encode(), SSE)

    handler = Breaking(["t"])
    async with WebServer(handler) as server, dispatching(api):
        await pin(api, f"{server.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.t", timeout_ms=20_000)
        (entry,) = await outcomes(api, run)
        assert entry.get("result", entry.get("error")) == {**entry["result"], "value": "done"}
        assert (handler.calls, handler.resumes) == (["t"], 1)


async def test_every_kind_of_content(api: Api) -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "x"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c"},
    ]
    handler = Sessions(["t"])
    handler.results["t"] = {"content": parts}
    async with WebServer(handler) as server, dispatching(api):
        await pin(api, f"{server.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.t")
        (entry,) = await outcomes(api, run)
        assert entry["result"]["value"] == parts


async def test_what_a_server_says_back_of_a_secret_is_not_recorded(api: Api) -> None:
    secret = 'planted-"Secret"/value'

    class Echo(Sessions):
        def answer(self, message: dict[str, Any]) -> Reply:
            shown = self.headers[-1]["authorization"]
            if message["params"]["name"] == "error":
                return rpc_error(-32050, f"bad {shown}", message["id"])
            if message["params"]["name"] == "status":
                return Reply(500, f"who is {shown}".encode(), (("Content-Type", "text/plain"),))
            text = json.dumps({"said": shown, shown: [shown.removeprefix("Bearer ")]})
            return self.result(
                message["id"],
                {"content": [{"type": "text", "text": text}], "isError": message["params"]["name"] == "fail"},
            )

    handler = Echo(["ok", "fail", "error", "status"])
    async with WebServer(handler) as server, dispatching(api):
        await api.call("PUT", "/v1/secrets/planted", json={"value": secret})
        await pin(api, f"{server.url}/mcp", auth={"secret": "planted"})
        run, puppet = await begin(api)
        for tool in handler.tools:
            await call(puppet, api, f"s0.{tool}")
        found = await outcomes(api, run, 4)
        assert f"Bearer {secret}" in {headers.get("authorization") for headers in handler.headers}
        told = json.dumps(found)
        assert "planted-" not in told
        assert told.count("[secret planted]") == 3 + 3 + 1 + 1
        async with api.store.pool.system.acquire() as connection:
            dump = await connection.fetch("select body::text as body from entries where run_id = $1", run)
        assert not any(b"planted-".hex() in row["body"] for row in dump)


async def test_tokens_by_client_credentials(api: Api) -> None:
    """One token for many calls; a refused one is replaced once; who has another secret has another token."""
    handler = Sessions(["t"])
    issued: list[str] = []

    def tokens(asked: Asked) -> Reply:
        assert parse_qs(asked.body.decode()) == {"grant_type": ["client_credentials"], "scope": ["a b"]}
        if b64decode(asked.headers["authorization"].removeprefix("Basic ")) != b"c:of-the-client":
            return Reply(401, b'{"error": "invalid_client"}', JSON)
        issued.append(f"token-number-{len(issued) + 1}")
        return Reply(
            200,
            json.dumps({"access_token": issued[-1], "token_type": "Bearer", "expires_in": 3600}).encode(),
            JSON,
        )

    def guarded(asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {issued[-1] if issued else ''}":
            return Reply(401)
        return handler(asked)

    async with WebServer(tokens) as issuer, WebServer(guarded) as server, dispatching(api):
        await api.call("PUT", "/v1/secrets/client", json={"value": "of-the-client"})
        oauth = {
            "token_url": f"{issuer.url}/token",
            "client_id": "c",
            "client_secret": {"secret": "client"},
            "scope": "a b",
        }
        await pin(api, f"{server.url}/mcp", auth={"oauth": oauth})
        run, puppet = await begin(api)
        for number in range(1, 4):
            await call(puppet, api, "s0.t")
            assert (await outcomes(api, run, number))[-1]["result"]["value"] == "done"
        assert len(issued) == 1
        issued.append("revoked-elsewhere")  # the server takes another one from now on
        await call(puppet, api, "s0.t")
        assert "result" in (await outcomes(api, run, 4))[-1]
        assert issued[-1] == "token-number-3"
        await api.call("PUT", "/v1/secrets/client", json={"value": "wrong-secret", "namespace": "other"})
        other, there = await begin(api, "other")
        await call(there, api, "s0.t")
        (entry,) = await outcomes(api, other, 1, "other")
        assert (entry["error"]["code"], "invalid_client" in entry["error"]["message"]) == (
            "unauthorized",
            True,
        )
        for wrong in ({"oauth": oauth, "secret": "client"}, {}, {"oauth": {**oauth, "token_url": "x"}}):
            body = {"name": "w", "mcp": [{"name": "m", "url": server.url, "auth": wrong}]}
            assert (await api.call("POST", "/v1/toolsets", json=body)).status_code == 422, wrong


async def test_a_server_that_is_away_is_left_alone_for_a_while(api: Api) -> None:
    async with HostileServer() as server:
        await pin(api, server.url)
    async with dispatching(api):
        run, puppet = await begin(api)
        for number in range(1, FAILURES_MAX + 2):
            await call(puppet, api, "s0.fine")
            found = await outcomes(api, run, number)
            assert (found[-1]["error"]["code"], found[-1]["error"]["retryable"]) == ("unreachable", True)
        assert "it is tried again in" in found[-1]["error"]["message"]
        assert "it is tried again in" not in found[-2]["error"]["message"]


def test_the_breaker() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_MAX):
        assert breaker.refuses_for_s(0) is None
        breaker.failed(0)
    assert breaker.refuses_for_s(1) == OPEN_S - 1
    assert breaker.refuses_for_s(OPEN_S) is None  # the probe
    assert breaker.refuses_for_s(OPEN_S) is not None  # one at a time
    breaker.failed(OPEN_S)
    assert breaker.refuses_for_s(OPEN_S) == 2 * OPEN_S
    assert breaker.refuses_for_s(3 * OPEN_S) is None
    breaker.gave_up()
    assert breaker.refuses_for_s(3 * OPEN_S) is None
    breaker.connected()
    assert [breaker.refuses_for_s(3 * OPEN_S) for _ in range(2)] == [None, None]
