"""Ownership and bursts: only the owner's appends land, and events during activations refuse no command."""

import asyncio
import random

import pytest

from sandbox.activation.live_run import LiveRun, LostRunError
from sandbox.activation.parked import ParkedClaims
from sandbox.journal.entries import CancelRequested, EntryType
from sandbox.store.blobs import BlobStore
from sandbox.store.interface import ClaimedRun, Guard, PendingKind, RunRecord, RunStatus
from sandbox.store.postgres.owner import PostgresOwner
from tests.fixtures.database import Clock
from tests.fixtures.keys import DATA_KEY
from tests.fixtures.turns import turn
from tests.sandbox.worker.conftest import EPOCH, NOWHERE, Bench

TWO_STEPS = """
import { g } from "rewind:tools";
export default async function main() {
  const one = await g.echo({ step: 1 });
  const two = await g.echo({ step: 2, one });
  return { one, two };
}
"""
TIMED_WAIT = """
import { waitForSignal } from "rewind";
export default async function main() {
  return await waitForSignal("go", { timeout: "1h" });
}
"""
STEPS = """
import { g } from "rewind:tools";
export default async function main(input: { steps: number }) {
  let sum = 0;
  for (let i = 1; i <= input.steps; i++) sum += await g.echo({ i });
  return sum;
}
"""
BURST = """
import { waitForSignal } from "rewind";
import { g } from "rewind:tools";
export default async function main(input: { calls: number; signals: number }) {
  const calls = Promise.all(Array.from({ length: input.calls }, (_, i) => g.echo({ i })));
  const seen: number[] = [];
  for (let i = 0; i < input.signals; i++) seen.push((await waitForSignal<{ n: number }>("s")).n);
  return { calls: (await calls).length, sum: seen.reduce((a, b) => a + b, 0) };
}
"""


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


def live(bench: Bench, owner: PostgresOwner, claimed: ClaimedRun) -> LiveRun:
    return LiveRun(claimed, store=owner, blobs=BlobStore(NOWHERE), isolates=bench.pool, parked=ParkedClaims())


async def advance_fully(run: LiveRun) -> None:
    while await run.advance() is not None:
        pass


async def test_of_two_workers_forced_onto_one_run_only_the_owner_appends(bench: Bench) -> None:
    first, second = [await PostgresOwner.open(bench.url, data_key=DATA_KEY) for _ in range(2)]
    await first.register([EPOCH])
    await second.register([EPOCH])
    run = await bench.start(TWO_STEPS)
    [claimed] = await first.claim_runs(first.worker, [EPOCH], 1)
    former = live(bench, first, claimed)
    await advance_fully(former)

    async with bench.edge.pool.acquire() as connection:
        await connection.execute("reset role")
        await connection.execute(
            "update runs set owner = $1, owner_epoch = owner_epoch + 1 where run_id = $2", second.worker, run
        )
    record = await bench.record(run)
    taken = ClaimedRun(
        bench.namespace, run, EPOCH, claimed.owner_epoch + 1, 1, record.delivered, record.next_seq
    )
    owner = live(bench, second, taken)
    await bench.complete(run, 1, "A")
    length = (await bench.record(run)).next_seq
    former.inbox.known_length(length)
    owner.inbox.known_length(length)
    with pytest.raises(LostRunError):
        await advance_fully(former)
    assert (await bench.record(run)).next_seq == length, "the former owner left something behind"
    await advance_fully(owner)
    await bench.complete(run, 2, "B")
    owner.inbox.known_length((await bench.record(run)).next_seq)
    await advance_fully(owner)

    entries = await bench.edge.read_entries(bench.namespace, run)
    assert [entry.type for entry in entries] == [
        EntryType.RUN_STARTED,
        EntryType.SCHEDULE_TOOL_CALL,
        EntryType.TOOL_CALL_COMPLETED,
        EntryType.SCHEDULE_TOOL_CALL,
        EntryType.TOOL_CALL_COMPLETED,
        EntryType.COMPLETE_RUN,
    ]
    for store in (first, second):
        await store.deregister()
        await store.close()
    await former.close()
    await owner.close()


async def test_a_thousand_events_during_activations_refuse_no_command_and_cause_no_replay(
    bench: Bench,
) -> None:
    calls, signals = 100, 900
    run = await bench.start(BURST, {"calls": calls, "signals": signals})
    owner = await bench.worker()
    await bench.until(run, lambda record: record.calls == calls)
    events = [bench.complete(run, call, call) for call in range(1, calls + 1)]
    events += [bench.signal(run, "s", {"n": n}, f"s{n}") for n in range(signals)]
    random.Random(7).shuffle(events)
    verdicts = await asyncio.gather(*events)
    assert {verdict.outcome.value for verdict in verdicts} == {"appended"}
    record = await bench.until(run, ended)
    assert record.status is RunStatus.COMPLETED
    entries = await bench.edge.read_entries(bench.namespace, run, limit=10_000)
    assert f'"sum":{sum(range(signals))}'.encode() in entries[-1].body
    assert [entry.seq for entry in entries] == list(range(len(entries)))
    assert bench.pool.opened == [run], "the run was loaded more than once"
    assert owner.command_batcher.commits < signals, "appends were not batched"


async def test_a_waiting_run_is_in_no_process_once_it_is_evicted(bench: Bench) -> None:
    run = await bench.start(BURST, {"calls": 0, "signals": 2})
    await bench.worker(warm_runs=0)

    def waits(record: RunRecord) -> bool:
        return [row.kind for row in record.pending] == [PendingKind.WAIT]

    await bench.until(run, waits)
    for n in range(2):
        async with asyncio.timeout(30):
            while await in_memory(bench, run):
                pass
        await bench.signal(run, "s", {"n": n}, f"s{n}")
    record = await bench.until(run, ended)
    assert record.status is RunStatus.COMPLETED
    assert bench.pool.opened == [run] * 3


async def test_a_wait_with_a_timeout_is_one_thing_with_an_until(bench: Bench) -> None:
    run = await bench.start(TIMED_WAIT)
    await bench.worker()
    record = await bench.until(run, lambda record: record.pending_count > 0)
    [row] = record.pending
    assert (row.kind, row.name, record.pending_count) == (PendingKind.WAIT, "go", 1)
    timer = await bench.edge.find_entry(bench.namespace, run, EntryType.START_TIMER)
    assert timer is not None
    assert row.due == timer.fire_at
    assert (await bench.fire(run, 1)).seq is not None
    record = await bench.until(run, ended)
    assert record.status is RunStatus.COMPLETED


async def test_superseded_workers_begin_anew_and_the_run_goes_on(bench: Bench, clock: Clock) -> None:
    """As when a machine wakes up: every worker looks dead to the others, and none is."""
    steps = 30
    run = await bench.start(STEPS, {"steps": steps})
    await bench.worker()
    await bench.worker()
    for step in range(1, steps + 1):
        await bench.until(run, lambda record, step=step: record.calls >= step)
        if step % 3 == 0:
            await asyncio.to_thread(clock.advance, 60_000)
        await bench.complete(run, step, step)
    record = await bench.until(run, ended)
    assert record.status is RunStatus.COMPLETED
    entries = await bench.edge.read_entries(bench.namespace, run, limit=1_000)
    assert len(entries) == 2 * steps + 2


async def test_a_neighbour_of_killed_children_is_loaded_again_and_never_blamed(bench: Bench) -> None:
    """Its process dies three times of others: more often than a run may kill children itself."""
    run = await bench.start(STEPS, {"steps": 4})
    await bench.worker()
    for step in range(1, 5):
        await bench.until(run, lambda record, step=step: record.calls >= step)
        for child in bench.pool.pool.children:
            child.kill()
        await bench.complete(run, step, step)
    record = await bench.until(run, ended)
    assert record.status is RunStatus.COMPLETED
    assert bench.pool.opened == [run] * 5


async def test_of_too_many_runs_in_memory_the_longest_unused_are_put_down(bench: Bench) -> None:
    await bench.worker(warm_runs=2)
    runs = []
    for _ in range(5):
        run = await bench.start(TIMED_WAIT)
        await bench.until(run, lambda record: record.pending_count > 0)
        runs.append(run)
    while [await in_memory(bench, run) for run in runs] != [False, False, False, True, True]:
        await turn()
    await bench.signal(runs[-1], "go", None, "s1")
    await bench.until(runs[-1], ended)
    assert bench.pool.opened == runs, "the last one was in memory still"


async def in_memory(bench: Bench, run: str) -> bool:
    """Somebody owns the run, or it still has something to do."""
    async with bench.edge.pool.acquire() as connection:
        busy: bool = await connection.fetchval(
            "select owner is not null or last_event > delivered from runs where run_id = $1", run
        )
        return busy


async def test_a_run_that_is_cancelled_before_its_start_never_runs(bench: Bench) -> None:
    source = 'export default () => { console.log("I ran"); }'
    run = await bench.start(source, held_ms=3_600_000)
    await bench.signal(run, "early", None, "s1")
    await bench.event(run, CancelRequested(reason="user", by="key:k"), Guard.CANCEL)
    await bench.worker()
    record = await bench.until(run, lambda found: found.status is RunStatus.CANCELLED)
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert [entry.type.name for entry in entries] == [
        "RUN_STARTED",
        "SIGNAL_RECEIVED",
        "CANCEL_REQUESTED",
        "CANCEL_RUN",
    ]
    assert entries[-1].cause == 2 and entries[-1].time == record.started_at
    assert bench.pool.opened == []
