"""Recorded runs executed again at the worker's desk: every ending matches, a tampered script does not."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.compiler.client import SandboxClient
from sandbox.journal.entries import CancelRequested, Limits
from sandbox.journal.ids import RunId
from sandbox.store.hints import HintBus
from sandbox.store.interface import Guard, RunRecord, RunStatus
from sandbox.store.postgres.requests import RequestDesk
from tests.sandbox.worker.conftest import Bench

CALLS = """import { g } from "rewind:tools";
export default async function main(input) {
  console.log("begins", input);
  const one = await g.echo({ n: 1 });
  const two = await g.echo({ n: one });
  return { one, two };
}"""
WAITS = """import { sleep, waitForSignal } from "rewind";
import { g } from "rewind:tools";
export default async function main() {
  try { await waitForSignal("go"); } finally { void g.echo("cleanup").catch(() => {}); }
}"""
FAILS = """export default async function main() { console.log("soon"); throw new RangeError("no"); }"""
HOSTILE = Path(__file__).parents[2] / "cases" / "hostile"
BURNS = """import { waitForSignal } from "rewind";
export default async function main() { console.log("before"); await waitForSignal("go"); while (true) {} }"""
BURNS_AT_ONCE = "export default async function main() { console.log(1); while (true) {} }"
CLEANS_FOR_EVER = """import { waitForSignal } from "rewind";
export default async function main() { try { await waitForSignal("go"); } finally { while (true) {} } }"""


@pytest.fixture
async def sandbox(bench: Bench) -> AsyncIterator[SandboxClient]:
    hints = HintBus(bench.hints, "api")
    hints.start()
    yield SandboxClient(RequestDesk(bench.edge.pool, hints, bench.edge.keys))
    hints.close()


async def replay(sandbox: SandboxClient, bench: Bench, run: RunId, **question: Any) -> Any:
    asked = sandbox.replay(bench.namespace, {"run": run, **question}, 0)
    return json.loads(await asyncio.wait_for(asked, 60))


def over(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


async def finished_calls(bench: Bench) -> RunId:
    run = await bench.start(CALLS, {"x": 1})
    for call in (1, 2):
        await bench.until(run, lambda record, call=call: record.calls == call)
        await bench.complete(run, call, call * 10)
    assert (await bench.until(run, over)).status is RunStatus.COMPLETED
    return run


async def test_a_completed_run_matches(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    answer = await replay(sandbox, bench, await finished_calls(bench))
    assert answer["matches"] is True
    assert answer["output"] == {"one": 10, "two": 20}
    assert answer["changed"] == []
    assert [(call["call"], call["args"], call["result"]) for call in answer["calls"]] == [
        (1, {"n": 1}, 10),
        (2, {"n": 10}, 20),
    ]


async def test_a_run_in_the_middle_matches(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await bench.start(CALLS)
    await bench.until(run, lambda record: record.calls == 1)
    answer = await replay(sandbox, bench, run)
    assert (answer["matches"], answer["output"]) == (True, None)


async def test_a_failed_run_matches(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await bench.start(FAILS)
    assert (await bench.until(run, over)).status is RunStatus.FAILED
    assert (await replay(sandbox, bench, run))["matches"] is True


@pytest.mark.parametrize("reason", ["user", "ttl"])
async def test_a_cancelled_run_matches(bench: Bench, sandbox: SandboxClient, reason: Any) -> None:
    await bench.worker()
    run = await bench.start(WAITS)
    await bench.until(run, lambda record: record.pending_count == 1)
    await bench.event(run, CancelRequested(reason=reason), Guard.CANCEL)
    await bench.until(run, lambda record: record.calls == 1)
    await bench.complete(run, 1, "done")
    assert (await bench.until(run, over)).status is RunStatus.CANCELLED
    answer = await replay(sandbox, bench, run)
    assert answer["matches"] is True, answer
    assert [call["args"] for call in answer["calls"]] == ["cleanup"]


async def test_a_clean_up_that_a_limit_ended_matches(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await bench.start(CLEANS_FOR_EVER, limits=Limits(cpu_ms_per_event=200))
    await bench.until(run, lambda record: record.pending_count == 1)
    await bench.event(run, CancelRequested(reason="user"), Guard.CANCEL)
    assert (await bench.until(run, over)).status is RunStatus.CANCELLED
    assert (await replay(sandbox, bench, run))["matches"] is True


async def test_a_run_cancelled_before_its_start_matches(bench: Bench, sandbox: SandboxClient) -> None:
    run = await bench.start(BURNS_AT_ONCE, held_ms=3_600_000)
    await bench.signal(run, "go", 1, "s1")
    await bench.event(run, CancelRequested(reason="user"), Guard.CANCEL)
    await bench.worker()
    assert (await bench.until(run, over)).status is RunStatus.CANCELLED
    answer = await replay(sandbox, bench, run)
    assert (answer["matches"], answer["calls"]) == (True, [])


@pytest.mark.parametrize("source", [BURNS, BURNS_AT_ONCE], ids=["later", "at once"])
async def test_an_aborted_run_matches_without_the_event_that_ended_it(
    bench: Bench, sandbox: SandboxClient, source: str
) -> None:
    await bench.worker()
    run = await bench.start(source, limits=Limits(cpu_ms_per_event=200))
    if source is BURNS:
        await bench.until(run, lambda record: record.pending_count == 1)
        await bench.signal(run, "go", 1, "s1")
    assert (await bench.until(run, over)).status is RunStatus.ABORTED
    assert (await replay(sandbox, bench, run))["matches"] is True


@pytest.mark.parametrize("number", ["15", "16", "18"])
@pytest.mark.parametrize("when", ["at the start", "after an await"])
async def test_hostile_scripts_that_a_limit_ends_replay_to_the_same_end(
    bench: Bench, sandbox: SandboxClient, number: str, when: str
) -> None:
    """Evicted after every activation, so the second activation of those that wait before is a replay as well."""
    (path,) = HOSTILE.glob(f"{number}-*.ts")
    source = path.read_text()
    waits = when == "after an await"
    if waits:
        source = 'import { g } from "rewind:tools";\n' + source.replace(
            "async function main() {", "async function main() {\n  await g.echo({ n: 1 });", 1
        )
    await bench.worker(warm_runs=0)
    run = await bench.start(source, limits=Limits(cpu_ms_per_event=200))
    if waits:
        await bench.until(run, lambda record: record.calls == 1)
        await bench.complete(run, 1, None)
    record = await bench.until(run, over)
    assert record.status is RunStatus.ABORTED
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert [entry.type.name for entry in entries[-2:]] == ["CANCEL_REQUESTED", "RUN_ABORTED"]
    assert b'"limit":"cpu"' in entries[-1].body
    assert (await replay(sandbox, bench, run))["matches"] is True
    assert await bench.edge.read_entries(bench.namespace, run) == entries


async def test_another_script_diverges_where_it_differs(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await finished_calls(bench)
    answer = await replay(sandbox, bench, run, source=CALLS.replace("{ n: one }", "{ n: one + 1 }"))
    assert (answer["matches"], answer["output"]) == (False, None)
    diverged = answer["diverged_at"]
    assert (diverged["type"], diverged["field"]) == ("schedule_tool_call", "args")
    assert (diverged["expected"]["value"], diverged["actual"]["value"]) == ({"n": 10}, {"n": 11})
    assert (diverged["line"], diverged["recorded_line"]) == (5, 5)
    assert [call["call"] for call in answer["calls"]] == [1]

    logging = CALLS.replace("const two", "console.log(one); const two")
    assert (await replay(sandbox, bench, run, source=logging))["matches"] is True
    shorter = CALLS.replace("const two = await g.echo({ n: one });", "const two = 20;")
    diverged = (await replay(sandbox, bench, run, source=shorter))["diverged_at"]
    assert (diverged["field"], diverged["expected"], diverged["actual"]) == (
        "type",
        "schedule_tool_call",
        "complete_run",
    )


async def test_a_script_that_is_refused_says_why(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await finished_calls(bench)
    answer = await replay(sandbox, bench, run, source="enum A { B }\nexport default function main() {}")
    assert answer["diagnostics"][0]["line"] == 1


async def test_what_if_a_call_had_answered_otherwise(bench: Bench, sandbox: SandboxClient) -> None:
    await bench.worker()
    run = await finished_calls(bench)
    same = await replay(sandbox, bench, run, overrides={})
    assert (same["matches"], same["changed"], same["output"]) == (True, [], {"one": 10, "two": 20})

    last = await replay(sandbox, bench, run, overrides={"2": {"result": "other"}})
    assert (last["matches"], last["changed"], last["output"]) == (False, [], {"one": 10, "two": "other"})

    first = await replay(sandbox, bench, run, overrides={"1": {"result": 11}})
    assert first["stopped_at"] == {"call": 2, "tool": "g.echo", "args": {"n": 11}, "line": 5}
    assert first["changed"] == [
        {
            "call": 2,
            "was": {"tool": "g.echo", "args": {"n": 10}},
            "now": {"tool": "g.echo", "args": {"n": 11}},
            "line": 5,
        }
    ]
    assert first["output"] is None

    fails = await replay(sandbox, bench, run, overrides={"1": {"error": {"message": "down", "code": "x"}}})
    assert (fails["status"], fails["error"]["name"], fails["error"]["code"]) == ("failed", "ToolError", "x")

    fixed = CALLS.replace("{ n: one }", "{ n: 10 }")
    mended = await replay(sandbox, bench, run, source=fixed, overrides={"1": {"result": 99}})
    assert mended["output"] == {"one": 99, "two": 20}


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"3": {"result": 1}}, "overrides.3"),
        ({"one": {"result": 1}}, "overrides.one"),
        ({"1": {}}, "overrides.1"),
        ({"1": {"result": 1, "error": {"message": "x"}}}, "overrides.1"),
        ({"1": {"error": "x"}}, "overrides.1.error"),
        ({"1": 5}, "overrides.1"),
    ],
)
async def test_what_is_no_override_is_refused(
    bench: Bench, sandbox: SandboxClient, overrides: Any, path: str
) -> None:
    await bench.worker()
    answer = await replay(sandbox, bench, await finished_calls(bench), overrides=overrides)
    assert answer["refused"]["path"] == path
