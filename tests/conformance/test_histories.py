"""Random legal histories: what a store keeps beside the journal is the fold of the journal."""

from random import Random

from sandbox.journal.codec import TYPE_OF
from sandbox.journal.entries import DELIVERED_TYPES, Entry, EntryType
from sandbox.journal.state import RunState, fold
from sandbox.store.interface import PendingKind, RunRecord, RunStatus
from sandbox.store.memory import decoded
from tests.fixtures.histories import History, outline
from tests.fixtures.stores import Bench, open_bench

SEEDS = {"memory": range(150), "postgres": range(1000, 1025)}


class Checked(History):
    """Compares the store with the fold of its journal whenever every event was delivered."""

    rests = 0

    async def activate(self, limit: int = 3) -> None:
        await super().activate(limit)
        if await self.at_rest():
            self.rests += 1
            entries = [decoded(entry) for entry in await self.bench.entries(self.run)]
            compare(await self.bench.record(self.run), entries)


def compare(record: RunRecord, entries: list[Entry]) -> RunState:
    state = fold(entries)
    assert record.status.name.lower() == state.status
    assert record.cancelling == (state.cancelling is not None)
    assert (record.next_seq, record.calls) == (state.entries, state.calls_made)
    assert record.last_event == max(
        entry.seq for entry in entries if TYPE_OF[type(entry.body)] in DELIVERED_TYPES
    )
    rows = {
        (row.kind, row.n): (row.seq, row.name if row.kind is not PendingKind.TIMER else row.due)
        for row in record.pending
    }
    expected = {(PendingKind.CALL, n): (call.seq, call.tool) for n, call in state.calls.items()}
    expected |= {(PendingKind.TIMER, n): (timer.seq, timer.fire_at) for n, timer in state.timers.items()}
    expected |= {(PendingKind.WAIT, n): (wait.seq, wait.name) for n, wait in state.waits.items()}
    assert rows == expected
    assert record.pending_count == len(expected)
    return state


async def test_pending_is_the_fold_at_rest(bench: Bench, kind: str) -> None:
    ends: set[RunStatus] = set()
    rests = 0
    for seed in SEEDS[kind]:
        history = Checked(bench, await bench.own(store=await bench.worker()), Random(seed))
        try:
            await history.play(25)
            stored = await bench.entries(history.run)
            compare_end(await bench.record(history.run), [decoded(entry) for entry in stored])
        except BaseException:
            print(f"seed {seed}")
            raise
        ends.add((await bench.record(history.run)).status)
        rests += history.rests
    assert rests > 5 * len(SEEDS[kind])
    assert ends >= {RunStatus.COMPLETED, RunStatus.FAILED}
    assert kind == "postgres" or ends == {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.ABORTED,
    }


def compare_end(record: RunRecord, entries: list[Entry]) -> None:
    state = compare(record, entries)
    assert state.end is not None
    assert (record.end_seq, record.pending_count) == (state.end.seq, 0)


async def test_any_prefix_of_a_history_folds() -> None:
    async with open_bench(None) as bench:
        reached: set[EntryType] = set()
        for seed in range(2000, 2030):
            history = History(bench, await bench.own(store=await bench.worker()), Random(seed))
            await history.play(20)
            stored = await bench.entries(history.run)
            entries = [decoded(entry) for entry in stored]
            for length in range(len(entries) + 1):
                assert fold(entries[:length]).entries == length
            reached |= {entry.type for entry in stored}
        assert set(EntryType) == reached


async def test_both_stores_answer_alike(database_url: str) -> None:
    async with open_bench(database_url) as postgres, open_bench(None) as memory:
        for seed in range(3000, 3008):
            played = []
            for bench in (memory, postgres):
                history = History(bench, await bench.own(store=await bench.worker()), Random(seed))
                await history.play(25)
                played.append((history.trace, outline((await bench.entries(history.run))[1:])))
            assert played[0] == played[1], f"seed {seed}"
