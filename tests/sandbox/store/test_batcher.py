"""Group commit: nothing waits when idle, waiting items share a commit, a culprit fails alone."""

import asyncio
from collections.abc import Sequence

import asyncpg
import pytest

from sandbox.journal.errors import Unavailable
from sandbox.store.postgres.batcher import BATCH_MAX, SHARE, Batcher
from tests.fixtures.turns import settle

Item = tuple[str, str]


class Log:
    """Commits that can be held back; answers each item with its position in its batch."""

    def __init__(self) -> None:
        self.batches: list[list[Item]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.raises: list[Exception] = []
        self.poison: Item | None = None

    async def commit(self, items: Sequence[Item]) -> list[int]:
        await self.gate.wait()
        self.batches.append(list(items))
        if self.raises:
            raise self.raises.pop(0)
        if self.poison in items:
            raise asyncpg.RaiseError("poison")
        return list(range(len(items)))


def batcher(log: Log) -> Batcher[Item, int]:
    return Batcher(log.commit, key=lambda item: item)


async def test_a_lone_item_is_committed_at_once() -> None:
    log = Log()
    assert await batcher(log).put(("a", "1")) == 0
    assert log.batches == [[("a", "1")]]


async def test_items_that_wait_share_one_sorted_commit() -> None:
    log = Log()
    log.gate.clear()
    under_test = batcher(log)
    first = asyncio.create_task(under_test.put(("m", "0")))
    await settle()
    others = [asyncio.create_task(under_test.put(item)) for item in [("z", "1"), ("b", "2"), ("b", "1")]]
    await settle()
    log.gate.set()
    await asyncio.gather(first, *others)
    assert log.batches == [[("m", "0")], [("b", "1"), ("b", "2"), ("z", "1")]]
    assert [task.result() for task in others] == [2, 1, 0]


async def test_one_namespace_gets_a_share_of_a_batch_while_others_wait() -> None:
    log = Log()
    log.gate.clear()
    under_test = batcher(log)
    tasks = [asyncio.create_task(under_test.put(("first", "0")))]
    await settle()
    tasks += [asyncio.create_task(under_test.put(("greedy", f"{n:03}"))) for n in range(200)]
    tasks += [asyncio.create_task(under_test.put(("quiet", "0")))]
    await settle()
    log.gate.set()
    await asyncio.gather(*tasks)
    second = log.batches[1]
    assert ("quiet", "0") in second
    assert len(second) == BATCH_MAX // SHARE + 1, "a share of the greedy one, and not what would still fit"
    assert {len(batch) for batch in log.batches[2:-1]} == {BATCH_MAX}, "alone it fills them"
    assert sum(len(batch) for batch in log.batches) == 202


async def test_a_batcher_of_its_own_size() -> None:
    log = Log()
    log.gate.clear()
    under_test = Batcher(log.commit, key=lambda item: item, most=2)
    tasks = [asyncio.create_task(under_test.put((name, "1"))) for name in "abcde"]
    await settle()
    log.gate.set()
    await asyncio.gather(*tasks)
    assert [len(batch) for batch in log.batches] == [2, 2, 1]


async def test_a_culprit_fails_alone() -> None:
    log = Log()
    log.gate.clear()
    log.poison = ("bad", "1")
    under_test = batcher(log)
    tasks = [asyncio.create_task(under_test.put(item)) for item in [("a", "1"), ("bad", "1"), ("c", "1")]]
    await settle()
    log.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert results[0] == 0
    assert isinstance(results[1], asyncpg.RaiseError)
    assert results[2] == 0


async def test_a_deadlock_is_retried_whole() -> None:
    log = Log()
    log.raises = [asyncpg.DeadlockDetectedError("deadlock")]
    assert await batcher(log).put(("a", "1")) == 0
    assert log.batches == [[("a", "1")], [("a", "1")]]


async def test_a_lost_database_is_unavailable_for_all_and_nothing_is_tried_again() -> None:
    log = Log()
    log.raises = [Unavailable("gone")]
    under_test = batcher(log)
    with pytest.raises(Unavailable):
        await under_test.put(("a", "1"))
    assert len(log.batches) == 1
    assert await under_test.put(("a", "2")) == 0
