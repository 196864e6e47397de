"""Public bug reports of our field that need a worker and its database: O14 on two workers, O18 to the last timer."""

import random

import orjson
import pytest

from sandbox.journal.entries import CancelRequested, EntryType
from sandbox.store.interface import EventOutcome, Guard, RunRecord, RunStatus
from tests.sandbox.worker.conftest import Bench

TOOLS = tuple(f"g.tool{number}" for number in range(10))
PARALLEL = """import { g } from "rewind:tools";
export default async function main() {
  const tools = g as unknown as Record<string, (args: object) => Promise<number>>;
  const both = async (n: number) => [await tools[`tool${n}`]({ n }), await tools[`tool${9 - n}`]({ again: n })];
  return await Promise.all([...Array(10).keys()].map(both));
}"""
SLEEPER = """import { sleep, CancelledError } from "rewind";
export default async function main() {
  try { await sleep("24h"); return "slept"; }
  catch (error) { console.log(error instanceof CancelledError); throw error; }
}"""


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


@pytest.mark.parametrize("seed", range(3))
async def test_o14_ten_tools_that_finish_in_any_order_go_on_at_a_second_worker(
    bench: Bench, seed: int
) -> None:
    """No isolate is kept: each outcome is delivered after a replay, by whichever worker is faster."""
    run = await bench.start(PARALLEL, tools=TOOLS)
    first = await bench.worker(warm_runs=0)
    await bench.until(run, lambda record: record.calls == 10)
    await bench.worker(warm_runs=0)
    chance = random.Random(seed)
    waiting = list(range(1, 11))
    chance.shuffle(waiting)
    for position, call in enumerate(waiting, start=1):
        if position == 5:
            await first.release_runs(first.worker, [(bench.namespace, run)])
        await bench.complete(run, call, call)
        await bench.until(run, lambda record, made=10 + position: record.calls == made)
    later = list(range(11, 21))
    chance.shuffle(later)
    for call in later:
        await bench.complete(run, call, call)
    assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
    entries = await bench.edge.read_entries(bench.namespace, run)
    output = orjson.loads(entries[-1].body)["output"]["value"]
    assert [pair[0] for pair in output] == [*range(1, 11)]
    assert sorted(pair[1] for pair in output) == [*range(11, 21)]
    assert [pair[1] - 11 for pair in output] == [waiting.index(n) for n in range(1, 11)]


async def test_o18_a_late_timer_changes_nothing_of_a_cancelled_run(bench: Bench) -> None:
    run = await bench.start(SLEEPER, tools=())
    await bench.worker()
    await bench.until(run, lambda record: any(row.n == 1 for row in record.pending))
    await bench.event(run, CancelRequested("user"), Guard.CANCEL)
    record = await bench.until(run, ended)
    assert (record.status, record.pending) == (RunStatus.CANCELLED, ())
    assert (await bench.fire(run, 1)).outcome is EventOutcome.ENDED
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert [entry.type for entry in entries] == [
        EntryType.RUN_STARTED,
        EntryType.START_TIMER,
        EntryType.CANCEL_REQUESTED,
        EntryType.LOG,
        EntryType.CANCEL_RUN,
    ]
    assert (await bench.record(run)).status is RunStatus.CANCELLED
