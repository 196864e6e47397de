"""Forks made by a real worker: what is sent, what is reused, and that whatever dies, the same comes out."""

from typing import Any

from sandbox.journal.codec import decode_body
from sandbox.journal.entries import ToolCallCompleted
from sandbox.journal.ids import RunId
from sandbox.journal.state import fold
from sandbox.store.interface import PendingKind, RunRecord, RunStatus
from sandbox.store.memory import decoded
from tests.sandbox.worker.conftest import Bench

TEN = """
import { g } from "rewind:tools";
export default async function main() {
  return await Promise.all(Array.from({ length: 10 }, (_, i) => g.echo({ i })));
}
"""
ONE_CHANGED = TEN.replace("{ i }", '{ i: i === 4 ? "four" : i }')


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


def made(record: RunRecord) -> bool:
    return record.fork_report is not None


async def bodies(bench: Bench, run: RunId) -> list[Any]:
    entries = await bench.edge.read_entries(bench.namespace, run, limit=10_000)
    fold(map(decoded, entries))
    return [decode_body(entry.type, entry.body)[0] for entry in entries]


async def completed(bench: Bench, source: str, calls: int, **options: Any) -> RunId:
    """A run of the script, with every call answered by its number."""
    run = await bench.start(source, **options)
    for number in range(1, calls + 1):
        await bench.until(run, lambda record, number=number: record.calls >= number)
        await bench.complete(run, number, number)
    await bench.until(run, ended)
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
    assert [x.call for x in entries if isinstance(x, ToolCallCompleted) and x.reused is None] == [5]
    assert (await bench.record(parent)).forks == (fork,)
