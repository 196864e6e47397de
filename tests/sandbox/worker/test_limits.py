"""Runs that use up what they may: how they end, and that the figures are true."""

import orjson

from sandbox.journal.entries import EntryType, Limits
from sandbox.journal.ids import RunId
from sandbox.store.interface import RunRecord, RunStatus
from tests.sandbox.worker.conftest import Bench

LOOP = "export default async function main() { for (;;); }"
TIMERS = """
import { waitForSignal } from "rewind";
export default async function main(input: { first: number; then: number }) {
  for (let i = 0; i < input.first; i++) setTimeout(() => {}, 1e9);
  await waitForSignal("go");
  for (let i = 0; i < input.then; i++) setTimeout(() => {}, 1e9);
  return "done";
}
"""
BURN = """
import { waitForSignal } from "rewind";
export default async function main() {
  for (let round = 0; ; round++) {
    for (let i = 0, x = 0; i < 3_000_000; i++) x += i;
    await waitForSignal("again");
  }
}
"""


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


def waiting(record: RunRecord) -> bool:
    return record.pending_count > 0 and record.delivered == record.last_event


async def aborted(bench: Bench, run: RunId) -> dict[str, object]:
    """The body of the run_aborted that ends this run."""
    record = await bench.until(run, ended)
    assert record.status is RunStatus.ABORTED
    last = (await bench.edge.read_entries(bench.namespace, run, limit=1_000))[-1]
    assert last.type == EntryType.RUN_ABORTED
    body: dict[str, object] = orjson.loads(last.body)
    return body


async def test_what_an_aborted_activation_used_is_counted(bench: Bench) -> None:
    run = await bench.start(LOOP, limits=Limits(cpu_ms_per_event=100))
    await bench.worker()
    assert (await aborted(bench, run))["limit"] == "cpu"
    record = await bench.record(run)
    assert record.cpu_us >= 100_000
    assert record.next_seq == 3


async def test_a_history_has_an_end_and_the_run_s_own_end_may_exceed_it(bench: Bench) -> None:
    limits = Limits(history_entries=20)
    await bench.worker()
    full = await bench.start(TIMERS, {"first": 17, "then": 0}, limits=limits)
    over = await bench.start(TIMERS, {"first": 17, "then": 1}, limits=limits)
    for run in (full, over):
        await bench.until(run, lambda record: record.next_seq == 19)
        await bench.signal(run, "go", None, "s")
    assert (await bench.until(full, ended)).status is RunStatus.COMPLETED
    assert await aborted(bench, over) == {"allowed": 20, "limit": "history", "used": 21}
    assert (await bench.record(over)).next_seq == 22, "what would have been too much was appended"


async def test_the_cpu_of_all_events_has_an_end_too(bench: Bench) -> None:
    run = await bench.start(BURN, limits=Limits(cpu_ms_total=60))
    await bench.worker(warm_runs=0)
    for number in range(1_000):
        record = await bench.until(run, lambda record: ended(record) or waiting(record))
        if ended(record):
            break
        await bench.signal(run, "again", None, str(number))
    body = await aborted(bench, run)
    assert (body["limit"], body["allowed"]) == ("cpu_total", 60)
    assert isinstance(body["used"], int)
    assert body["used"] > 60
