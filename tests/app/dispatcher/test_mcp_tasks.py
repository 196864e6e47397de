"""Tools that their servers run as tasks of the protocol only (2025-11-25): asked after, taken once, told to stop."""

from typing import Any

import pytest

from tests.app.dispatcher.test_loop import begin, call, dispatching, outcomes, pin
from tests.e2e.stack import eventually
from tests.fixtures.api import Api
from tests.fixtures.mcp_versions import VersionServer, text_result
from tests.fixtures.web_server import Reply, Stream, WebServer

AT = "2026-01-01T00:00:00Z"


class TaskServer(VersionServer):
    """`greet` is run as a task, which is at work for `looks` questions and then as `ends` says."""

    def __init__(self, ends: str, *, looks: int = 2, forgets: bool = False) -> None:
        super().__init__("2025-11-25")
        self.tools[0]["execution"] = {"taskSupport": "required"}
        self.ends = ends
        self.left = looks
        self.forgets = forgets

    def called(self, message: dict[str, Any]) -> Reply | Stream | None:
        if message["params"].get("task", {}).get("ttl", 0) <= 0:
            self.faults.append("a call that is no task")
        return self.result(message, {"task": self._task("working")})

    def _task(self, status: str) -> dict[str, Any]:
        return {
            "taskId": "t1", "status": status, "createdAt": AT, "lastUpdatedAt": AT, "ttl": None, "pollInterval": 1,
            "statusMessage": f"it is {status}",
        }  # fmt: skip

    def _served(self, message: dict[str, Any]) -> Reply | Stream | None:
        if not message["method"].startswith("tasks/"):
            return super()._served(message)
        if message["params"] != {"taskId": "t1"}:
            self.faults.append(f"a task that there is not: {message['params']}")
        if message["method"] == "tasks/cancel":
            return self.result(message, self._task("cancelled"))
        if message["method"] == "tasks/get":
            if self.forgets:
                self.forgets = False
                return Reply(404)
            self.left -= 1
            return self.result(message, self._task(self.ends if self.left < 0 else "working"))
        if self.ends == "failed":
            return self.error(message, -32603, "no luck", 200)
        return self.result(message, text_result("greeted"))


@pytest.mark.parametrize(
    ("server", "wanted"),
    [
        (TaskServer("completed"), "greeted"),
        (TaskServer("failed"), ("tool_failed", "it is failed", False)),
        (TaskServer("cancelled"), ("tool_failed", "it is cancelled", False)),
        (TaskServer("input_required"),
         ("unreachable", "the task that the server runs for the call is lost: the task asks for input, which a script does not give", False)),
        (TaskServer("completed", forgets=True),
         ("unreachable", "the task that the server runs for the call is lost: the server answered with status 404", False)),
    ],
    ids=["completed", "failed", "cancelled", "input_required", "forgotten"],
)  # fmt: skip
async def test_a_task_is_followed_to_its_end(api: Api, server: TaskServer, wanted: Any) -> None:
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp", retry={"attempts": 1})
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        (entry,) = await outcomes(api, run)
        error = entry.get("error")
        found = (
            entry["result"]["value"]
            if error is None
            else (error["code"], error["message"], error["retryable"])
        )
        assert found == wanted
    assert (server.faults, len(server.keys)) == ([], 1)


@pytest.mark.parametrize("by", ["timeout", "stop"])
async def test_a_task_that_nobody_waits_for_is_cancelled(api: Api, by: str) -> None:
    server = TaskServer("completed", looks=10**9)
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet", **({"timeout_ms": 400} if by == "timeout" else {}))

        async def asked() -> bool:
            return "tasks/get" in server.methods

        await eventually(asked, what="a question after the task")
        if by == "stop":
            await puppet.stop_calls()
        (entry,) = await outcomes(api, run)
        assert entry["error"]["name"] == ("ToolError" if by == "timeout" else "OutcomeUnknownError")

        async def cancelled() -> bool:
            return "tasks/cancel" in server.methods

        await eventually(cancelled, what="the cancelled task")
    assert (server.faults, len(server.keys)) == ([], 1)


async def test_a_task_that_nobody_asked_for_is_no_answer(api: Api) -> None:
    server = TaskServer("completed")
    del server.tools[0]["execution"]
    async with WebServer(server) as web, dispatching(api):
        await pin(api, f"{web.url}/mcp")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.greet")
        (entry,) = await outcomes(api, run)
        assert (entry["error"]["code"], "unasked" in entry["error"]["message"]) == ("invalid_result", True)
