"""Forks made by a real worker: what is sent, what is reused, and that whatever dies, the same comes out."""

from typing import Any
from uuid import uuid4

import pytest

from sandbox.activation import forking
from sandbox.activation.live_run import LiveRun, LostRunError
from sandbox.activation.parked import ParkedClaims
from sandbox.journal.codec import decode_body
from sandbox.journal.entries import (
    CancelRequested,
    FailRun,
    Limits,
    RunAborted,
    ScheduleToolCall,
    StartTimer,
    TimerFired,
    ToolCallCompleted,
    ToolFailure,
)
from sandbox.journal.fork import idempotency_key
from sandbox.journal.ids import RunId
from sandbox.journal.state import fold
from sandbox.store.blobs import BlobStore
from sandbox.store.forks import ForkAppend
from sandbox.store.interface import CommandVerdict, Guard, PendingKind, RunRecord, RunStatus, TaskFilter
from sandbox.store.memory import decoded
from sandbox.store.postgres.owner import PostgresOwner
from tests.fixtures.keys import DATA_KEY
from tests.sandbox.worker.conftest import EPOCH, NOWHERE, Bench

TEN = """
import { g } from "rewind:tools";
export default async function main() {
  return await Promise.all(Array.from({ length: 10 }, (_, i) => g.echo({ i })));
}
"""
ONE_CHANGED = TEN.replace("{ i }", '{ i: i === 4 ? "four" : i }')
STEPS = """
import { run, sleep, waitForSignal } from "rewind";
import { g } from "rewind:tools";
export default async function main() {
  const seen: unknown[] = [Math.random(), crypto.randomUUID(), Date.now(), run.id, run.labels, run.parent];
  seen.push(await g.echo({ step: 1, random: Math.random() }));
  seen.push(await waitForSignal("go", { timeout: "1h" }));
  await sleep("10ms");
  seen.push(Date.now(), Math.random());
  seen.push(await g.echo({ step: 2, random: Math.random() }));
  return seen;
}
"""
TRIED = """
import { g } from "rewind:tools";
export default async function main() {
  const a = await g.echo("a");
  return [a, await g.echo("b")];
}
"""


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


def made(record: RunRecord) -> bool:
    return record.fork_report is not None


async def bodies(bench: Bench, run: RunId) -> list[Any]:
    """A run's journal, which must be one that a run can have."""
    entries = await bench.edge.read_entries(bench.namespace, run, limit=10_000)
    fold(map(decoded, entries))
    return [decode_body(entry.type, entry.body)[0] for entry in entries]


def sent(entries: list[Any]) -> list[int]:
    """Calls whose outcome is the run's own."""
    return [x.call for x in entries if isinstance(x, ToolCallCompleted) and x.reused is None]


async def called(bench: Bench, run: RunId, number: int) -> None:
    await bench.until(run, lambda record: record.calls >= number)


async def completed(bench: Bench, source: str, calls: int) -> RunId:
    """A run of the script, with every call answered by its number."""
    run = await bench.start(source)
    for number in range(1, calls + 1):
        await called(bench, run, number)
        await bench.complete(run, number, number)
    await bench.until(run, ended)
    return run


async def steps(bench: Bench) -> RunId:
    run = await bench.start(STEPS)
    await called(bench, run, 1)
    await bench.complete(run, 1, "one")
    await bench.until(run, lambda record: any(row.kind is PendingKind.WAIT for row in record.pending))
    await bench.signal(run, "go", {"n": 1}, "s1")
    record = await bench.until(run, lambda record: [row.name for row in record.pending] == ["sleep"])
    [timer] = record.pending
    await bench.event(run, TimerFired(timer.n), Guard.TIMER, n=timer.n, not_before=timer.due)
    await called(bench, run, 2)
    await bench.complete(run, 2, "two")
    assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
    return run


async def test_of_ten_parallel_calls_with_one_changed_only_that_one_is_sent(bench: Bench) -> None:
    await bench.worker()
    parent = await completed(bench, TEN, 10)
    fork = await bench.fork(parent, ONE_CHANGED)
    record = await bench.until(fork, made)
    assert [(row.kind, row.n) for row in record.pending] == [(PendingKind.CALL, 5)]
    await bench.complete(fork, 5, "new")
    assert (await bench.until(fork, ended)).status is RunStatus.COMPLETED
    entries = await bodies(bench, fork)
    assert entries[-1].output.text == b'[1,2,3,4,"new",6,7,8,9,10]'
    assert sent(entries) == [5]
    assert (await bench.record(parent)).forks == (fork,)


async def test_an_unchanged_script_sends_nothing_and_random_numbers_and_times_are_the_same(
    bench: Bench,
) -> None:
    """Also with a log more; also a fork of the fork. Calls, a signal, a timer: all with the parent's times."""
    await bench.worker()
    parent = await steps(bench)
    before = await bench.edge.read_entries(bench.namespace, parent, limit=1_000)
    logged = STEPS.replace("await sleep", 'console.log("here"); await sleep')
    of = parent
    for source in (None, logged, None):
        fork = await bench.fork(of, source)
        assert (await bench.until(fork, ended)).status is RunStatus.COMPLETED
        entries = await bodies(bench, fork)
        assert sent(entries) == []
        assert entries[-1].output == (await bodies(bench, parent))[-1].output
        after = await bench.edge.read_entries(bench.namespace, fork, limit=1_000)
        events = [[(e.type, e.time) for e in read if e.cause is None] for read in (before, after)]
        assert events[0] == events[1]
        timers = [[e.fire_at for e in read if e.fire_at is not None] for read in (before, after)]
        assert timers[0] == timers[1]
        of = fork


async def test_random_numbers_continue_the_stream_after_a_difference(bench: Bench) -> None:
    await bench.worker()
    parent = await steps(bench)
    fork = await bench.fork(parent, STEPS.replace("step: 2", "step: 'two'"))
    await bench.until(fork, made)
    [before, after] = [
        [x.args.text for x in await bodies(bench, run) if isinstance(x, ScheduleToolCall)]
        for run in (parent, fork)
    ]
    assert before[0] == after[0]
    assert before[1].replace(b'"step":2', b'"step":"two"') == after[1]
    await bench.complete(fork, 2, "two")
    await bench.until(fork, ended)


async def test_at_the_failing_outcome_its_call_is_made_anew(bench: Bench) -> None:
    await bench.worker()
    run = await bench.start(TRIED)
    await called(bench, run, 1)
    await bench.complete(run, 1, "A")
    await called(bench, run, 2)
    failed = ToolCallCompleted(2, None, ToolFailure("ToolError", "tool_failed", "no"), attempts=1)
    verdict = await bench.event(run, failed, Guard.CALL, n=2)
    assert (await bench.until(run, ended)).status is RunStatus.FAILED

    same = await bench.fork(run)
    assert (await bench.until(same, ended)).status is RunStatus.FAILED
    assert sent(await bodies(bench, same)) == []
    retried = await bench.fork(run, at=verdict.seq)
    record = await bench.until(retried, made)
    assert [row.n for row in record.pending] == [2]
    await bench.complete(retried, 2, "B")
    assert (await bench.until(retried, ended)).status is RunStatus.COMPLETED
    entries = await bench.edge.read_entries(bench.namespace, retried)
    [scheduled] = [
        e for e in entries if isinstance(decoded(e).body, ScheduleToolCall) and decoded(e).body.call == 2
    ]  # type: ignore[union-attr]
    assert idempotency_key(retried, 2, scheduled.body) == f"{retried}/2"


async def test_a_fork_of_a_cancelled_run_goes_on_and_its_pending_timer_keeps_its_time(bench: Bench) -> None:
    await bench.worker()
    source = TRIED.replace(
        "await g.echo", "await new Promise((ok) => setTimeout(ok, 3_600_000)); const a = await g.echo", 1
    )
    source = source.replace("const a = await new", "await new")
    run = await bench.start(source)
    await bench.until(run, lambda record: record.pending_count > 0)
    await bench.event(run, CancelRequested("user"), Guard.CANCEL)
    assert (await bench.until(run, ended)).status is RunStatus.CANCELLED
    fork = await bench.fork(run)
    record = await bench.until(fork, made)
    [timer] = [x for x in await bench.edge.read_entries(bench.namespace, run) if x.fire_at is not None]
    assert [(row.kind, row.due) for row in record.pending] == [(PendingKind.TIMER, timer.fire_at)]
    await bench.fire(fork, 1)
    for number in (1, 2):
        await called(bench, fork, number)
        await bench.complete(fork, number, number)
    assert (await bench.until(fork, ended)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_call_that_the_cancel_lost_follows_the_rule_of_lost_outcomes(
    bench: Bench,
    idempotent: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Repeatable: offered again with the parent's key, also in a fork of the fork. Else: its outcome is not known."""
    await bench.worker()
    first = run = await bench.start(TRIED, idempotent=idempotent)
    await called(bench, run, 1)
    wanted = TaskFilter(bench.organization)
    for _ in range(2):
        [task] = await bench.edge.claim_tasks(wanted, str(uuid4()), 1, 30_000)
        assert idempotency_key(run, task.call, task.body) == f"{first}/1"
        await bench.event(run, CancelRequested("user"), Guard.CANCEL)
        lost = ToolCallCompleted(1, None, ToolFailure("OutcomeUnknownError", None, "?"), attempts=1)
        await bench.event(run, lost, Guard.CALL, n=1)
        assert (await bench.until(run, ended)).status is RunStatus.CANCELLED
        run = await bench.fork(run)
        if not idempotent:
            break
        await bench.until(run, lambda record: record.pending_count > 0)
    if idempotent:
        [task] = await bench.edge.claim_tasks(wanted, str(uuid4()), 1, 30_000)
        assert task.run == run
        assert idempotency_key(run, task.call, task.body) == f"{first}/1"
        return
    assert (await bench.until(run, ended)).status is RunStatus.FAILED
    [outcome] = [x for x in await bodies(bench, run) if isinstance(x, ToolCallCompleted)]
    assert (outcome.error.name, outcome.attempts, outcome.reused) == ("OutcomeUnknownError", 1, None)


async def test_a_fork_of_an_aborted_run_with_a_corrected_script(bench: Bench) -> None:
    await bench.worker()
    loop = TRIED.replace("return [a", "while (true) {} return [a")
    run = await bench.start(loop, limits=Limits(cpu_ms_per_event=300))
    await called(bench, run, 1)
    await bench.complete(run, 1, "A")
    assert (await bench.until(run, ended)).status is RunStatus.ABORTED
    again = await bench.fork(run)
    assert (await bench.until(again, ended)).status is RunStatus.ABORTED
    entries = await bodies(bench, again)
    assert isinstance(entries[-1], RunAborted)
    assert sent(entries) == []
    fork = await bench.fork(run, TRIED)
    await called(bench, fork, 2)
    await bench.complete(fork, 2, "B")
    record = await bench.until(fork, ended)
    assert record.status is RunStatus.COMPLETED
    assert sent(await bodies(bench, fork)) == [2]


async def test_a_script_that_fails_among_its_reused_calls_sends_none_of_the_others(bench: Bench) -> None:
    """The parent failed with a call that nobody had begun: the fork withdraws it as well, and offers it to nobody."""
    await bench.worker()
    source = TEN.replace("length: 10", "length: 2")
    run = await bench.start(source)
    await called(bench, run, 2)
    failed = ToolCallCompleted(1, None, ToolFailure("ToolError", "tool_failed", "no"), attempts=1)
    await bench.event(run, failed, Guard.CALL, n=1)
    assert (await bench.until(run, ended)).status is RunStatus.FAILED
    fork = await bench.fork(run)
    assert (await bench.until(fork, ended)).status is RunStatus.FAILED
    entries = await bodies(bench, fork)
    assert [(x.call, x.attempts) for x in entries if isinstance(x, ToolCallCompleted)] == [(1, 1), (2, 0)]
    assert isinstance(entries[-1], FailRun)


async def test_a_signal_sent_at_once_comes_after_everything_reused(bench: Bench) -> None:
    parent = await steps_without_worker(bench)
    fork = await bench.fork(parent, STEPS.replace("step: 2", "step: 'two'"))
    await bench.signal(fork, "go", "early", "s2")
    await bench.worker()
    await bench.until(fork, made)
    entries = await bodies(bench, fork)
    reused = [n for n, x in enumerate(entries) if getattr(x, "reused", None) is not None]
    [live] = [n for n, x in enumerate(entries) if getattr(x, "id", None) == "s2"]
    assert live > max(reused)


async def steps_without_worker(bench: Bench) -> RunId:
    worker = await bench.worker()
    parent = await steps(bench)
    bench.stop.set()
    for task in bench.tasks:
        await task
    bench.tasks.clear()
    bench.stop.clear()
    del worker
    return parent


class Dying(PostgresOwner):
    """A worker's store that dies after so many chunks of a fork, or right before one is recorded."""

    chunks_left = 0

    async def append_fork(self, append: ForkAppend) -> CommandVerdict:
        if self.chunks_left == 0:
            raise LostRunError("the worker is dead")
        self.chunks_left -= 1
        return await super().append_fork(append)


async def test_a_worker_that_dies_after_any_activation_leaves_a_fork_that_ends_the_same(
    bench: Bench, monkeypatch: Any
) -> None:
    monkeypatch.setattr(forking, "CHUNK_ENTRIES", 1)
    parent = await steps_without_worker(bench)
    changed = STEPS.replace("step: 2", "step: 'two'")
    fork = await bench.fork(parent, changed)
    died = 0
    owner = await Dying.open(bench.url, data_key=DATA_KEY)
    while True:
        await owner.register([EPOCH])
        [claimed] = await owner.claim_runs(owner.worker, [EPOCH], 10)
        owner.chunks_left = 1
        live = LiveRun(
            claimed, store=owner, blobs=BlobStore(NOWHERE), isolates=bench.pool, parked=ParkedClaims()
        )
        try:
            await live.advance()
            break
        except LostRunError:
            died += 1
        await live.close()
        assert [row.n for row in (await bench.record(fork)).pending] == [], (
            "nothing is offered before the end"
        )
        await owner.deregister()
    await live.close()
    await owner.release_runs(owner.worker, [(bench.namespace, fork)])
    await owner.deregister()
    await owner.close()
    made_so_far = await bench.edge.read_entries(bench.namespace, fork)
    events = [entry for entry in made_so_far if entry.cause is None]
    assert died == len(events) - 1, "each event, with what the script did at it, was a chunk of its own"
    await bench.worker()
    other = await bench.fork(parent, changed)
    for run in (fork, other):
        await bench.until(run, made)
        await bench.complete(run, 2, "new")
        assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
    first, second = await bodies(bench, fork), await bodies(bench, other)
    assert first[1:] == second[1:]
    assert sent(first) == [2]
    assert len([x for x in first if isinstance(x, StartTimer | TimerFired)]) == 3
