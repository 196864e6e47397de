"""What else is said between a server and us: lists in pages, questions of the server, calls that wait for a person."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.dispatcher.mcp import PAGES_MAX
from tests.app.dispatcher.test_loop import begin, call, dispatching, outcome, outcomes, pin
from tests.e2e.stack import eventually, pause
from tests.fixtures.api import Api
from tests.fixtures.mcp_versions import MODERN, VERSIONS, VersionServer, text_result
from tests.fixtures.web_server import Reply, Stream, WebServer


class Paged(VersionServer):
    """Lists one tool a page; `pages` None: there is always another one."""

    def __init__(self, version: str, pages: int | None, last: str | None = None) -> None:
        super().__init__(version)
        self.pages = pages
        self.last = last

    def listed(self, cursor: str | None) -> dict[str, Any]:
        number = 1 if cursor is None else int(cursor.removeprefix("page "))
        page: dict[str, Any] = {"tools": [{"name": f"t{number}", "inputSchema": {"type": "object"}}]}
        more = self.pages is None or number < self.pages
        following = f"page {number + 1}" if more else self.last
        return page if following is None else {**page, "nextCursor": following}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_list_in_pages(api: Api, version: str) -> None:
    for last in (None, ""):  # some servers end with an empty cursor
        server = Paged(version, 4, last)
        async with WebServer(server) as web:
            pinned = await pin(api, f"{web.url}/mcp")
        assert [tool["original"] for tool in pinned["tools"]] == ["t1", "t2", "t3", "t4"]
        assert (server.methods.count("tools/list"), server.faults) == (4, [])


async def test_a_list_without_end(api: Api) -> None:
    server = Paged(MODERN, None)
    async with WebServer(server) as web:
        body = {"name": "support", "mcp": [{"name": "s0", "url": f"{web.url}/mcp"}]}
        answer = await api.call("POST", "/v1/toolsets", json=body)
    assert (answer.status_code, f"more than {PAGES_MAX} pages" in answer.text) == (422, True)
    assert server.methods.count("tools/list") == PAGES_MAX


QUESTIONS = {
    "ping": {},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}},
    "roots/list": {},
}


async def test_a_server_that_asks_back_gets_an_answer_and_the_call_its_outcome(api: Api) -> None:
    """A ping is answered; what only a person or a model could answer is refused, so that nothing waits for it."""

    class Asking(VersionServer):
        def called(self, message: dict[str, Any]) -> Reply | Stream | None:
            return Stream(self._asked(message))

        async def _asked(self, message: dict[str, Any]) -> AsyncIterator[bytes]:
            for method, params in QUESTIONS.items():
                asked = {"jsonrpc": "2.0", "id": f"q {method}", "method": method, "params": params}
                yield b"data: " + json.dumps(asked).encode() + b"\n\n"
            while len(self.answers) < len(QUESTIONS):
                await pause(0.01)
            yield b"data: " + self.body({"id": message["id"], "result": text_result("done")}) + b"\n\n"

    server = Asking("2025-11-25")
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        (entry,) = await outcomes(api, run)
        assert entry["result"]["value"] == "done"
    answers = {answer["id"]: answer for answer in server.answers}
    assert answers["q ping"]["result"] == {}
    assert all("error" in answers[f"q {method}"] for method in QUESTIONS if method != "ping")
    assert (len(server.answers), server.faults) == (len(QUESTIONS), [])


@pytest.mark.parametrize("tool", ["s0.greet", "http.request"])
async def test_a_decision_outlives_whoever_would_have_made_the_call(api: Api, tool: str) -> None:
    """Pending: nothing is sent. Approved while no dispatcher runs: the next one makes the call, once."""
    server = VersionServer("2025-06-18")

    async with WebServer(server) as web:
        host = {"allow": [web.host], "approval": True}
        mcp = [{"name": "s0", "url": f"{web.url}/mcp", "approval": True}]
        pinned = await api.call("POST", "/v1/toolsets", json={"name": "support", "mcp": mcp, "http": host})
        assert pinned.status_code in {200, 201}, pinned.text
        before = len(web.asked)
        run, puppet = await begin(api)
        args = {"url": f"{web.url}/mcp", "method": "DELETE"} if tool == "http.request" else {"name": "Ada"}
        async with dispatching(api):
            number = await call(puppet, api, tool, args, gated=True)
            await call(puppet, api, "s0.greet")  # not gated: by now the dispatcher has looked at all there is
            await outcomes(api, run)
            seen = [
                (asked.method, json.loads(asked.body or b"{}").get("params", {}).get("arguments"))
                for asked in web.asked
            ]
            assert ("DELETE", None) not in seen[before:]
            assert ("POST", {"name": "Ada"}) not in seen
        answer = await api.call("POST", f"/v1/runs/{run}/approvals/{number}", json={"decision": "approved"})
        assert answer.status_code == 200, answer.text
        assert len(await outcome(api, run)) == 1
        sent = len(web.asked)
        async with dispatching(api):
            (entry,) = [entry for entry in await outcomes(api, run, 2) if entry["call"] == number]
            assert ("result" in entry, entry["attempts"]) == (True, 1)

            async def quiet() -> bool:
                row = await api.store.pool.system.fetchrow(
                    "select 1 from pending where run_id = $1 and kind = 0", run
                )
                return row is None

            await eventually(quiet, what="nothing left to do")
        if tool == "http.request":
            assert [asked.method for asked in web.asked[sent:]] == ["DELETE"]
        else:
            assert server.keys == [f"{run}/2", f"{run}/{number}"]
