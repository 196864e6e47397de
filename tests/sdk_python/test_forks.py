"""`runs.fork`, `runs.rerun`, and `rewind runs fork`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import rewind
from rewind import AsyncRewind

from tests.sdk_python.command import Run
from tests.sdk_python.fake_api import RUN_ID, FakeApi, run_json
from tests.sdk_python.http_server import Reply


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as made:
        yield made


FORK_PLAN = {
    "reused": {"calls": 9, "signals": 0, "timers": 1},
    "dropped": [{"seq": 12, "type": "timer_fired", "timer": 2}],
    "diverged_at": {
        "seq": 5,
        "line": 4,
        "expected": {"type": "fail_run", "name": "Error", "message": "no"},
        "actual": {"type": "schedule_tool_call", "tool": "u", "args": {"n": 1}},
    },
}


async def test_forks(server: FakeApi, run: Run, tmp_path: Path) -> None:
    script = tmp_path / "fixed.ts"
    script.write_text("export default async function main() {}")
    server.on(f"POST /v1/runs/{RUN_ID}/fork", Reply(200, {"fork": FORK_PLAN}))
    dry = await run("runs", "fork", RUN_ID, "--script", str(script), "--at", "4", "--dry-run")
    assert dry.out.splitlines() == [
        "reuses 9 calls, 0 signals, 1 timer",
        "  not reused: 1 later signals and firings",
        '  goes its own way at line 4: calls u {"n":1}',
        "  entry 5 of the parent: fails: Error: no",
    ]
    assert server.requests[-1].json() == {"script": script.read_text(), "at": 4, "dry_run": True}
    server.on(f"POST /v1/runs/{RUN_ID}/fork", Reply(201, run_json(fork=FORK_PLAN)))
    forked = await run("runs", "fork", RUN_ID, "--label", "a=b")
    assert forked.code == 0
    assert forked.out.startswith("reuses 9 calls")
    assert server.requests[-1].json() == {"wait": 1000, "labels": {"a": "b"}}


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[AsyncRewind]:
    async with AsyncRewind(api_key="rwk_test_0123456789", base_url=api.url, namespace="acme") as made:
        yield made


async def test_a_fork_is_made_once_however_often_it_is_asked_for(api: FakeApi, client: AsyncRewind) -> None:
    broken = Reply(503, {"code": "unavailable", "detail": "later"})
    api.on(f"POST /v1/runs/{RUN_ID}/fork", broken, Reply(201, run_json(fork=FORK_PLAN)))
    forked = await client.runs.fork(RUN_ID, script="s", at=4, wait="1s", ttl="1h", labels={"a": "b"})
    assert forked.fork == FORK_PLAN
    first, second = api.requests
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert second.json() == {"script": "s", "at": 4, "wait": "1s", "ttl": "1h", "labels": {"a": "b"}}


async def test_a_dry_run_answers_the_plan(api: FakeApi, client: AsyncRewind) -> None:
    api.on(f"POST /v1/runs/{RUN_ID}/fork", Reply(200, {"fork": FORK_PLAN}))
    plan = await client.runs.fork(RUN_ID, dry_run=True)
    assert isinstance(plan, rewind.ForkPlan)
    assert plan.reused["calls"] == 9
    assert plan.dropped == FORK_PLAN["dropped"]


async def test_a_rerun_starts_the_same_from_the_beginning(api: FakeApi, client: AsyncRewind) -> None:
    api.on(f"GET /v1/runs/{RUN_ID}", run_json(toolset="t@sha256:11", labels={"a": "b"}))
    api.on("POST /v1/runs", Reply(201, run_json()))
    await client.runs.rerun(RUN_ID, wait="5s")
    assert api.requests[-1].json() == {
        "script": "sha256:00",
        "toolset": "t@sha256:11",
        "input": {"name": "Ada"},
        "wait": "5s",
        "labels": {"a": "b"},
        "namespace": "acme",
    }
