"""Group commit: what is waiting goes into one transaction as soon as the previous one has returned.

Adds no latency when idle: a lone item is committed at once. Items of one batch are sorted by
(namespace, run), so that all batches lock runs in one order. When a statement raises, each item is tried
alone: the culprit alone fails.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import asyncpg

from sandbox.customers import on_behalf_of
from sandbox.journal.errors import Unavailable

logger = logging.getLogger(__name__)

BATCH_MAX = 32
RETRIES_MAX = 10
"""Of a whole batch after a deadlock or serialization failure."""
RETRIED = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
SHARE = 4
"""One namespace gets a quarter of a batch while others wait: what theirs costs, its items do not wait for."""

Item = TypeVar("Item")
Verdict = TypeVar("Verdict")


class Batcher(Generic[Item, Verdict]):
    """`commit` gets 1 to `most` items in lock order and answers one verdict for each, in that order."""

    def __init__(
        self,
        commit: Callable[[Sequence[Item]], Awaitable[Sequence[Verdict]]],
        *,
        key: Callable[[Item], tuple[str, str]],
        most: int = BATCH_MAX,
    ) -> None:
        self._commit = commit
        self._key = key
        self._most = most
        self._queue: deque[tuple[Item, asyncio.Future[Verdict]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self.commits = 0
        self.items = 0

    async def put(self, item: Item) -> Verdict:
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._queue.append((item, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        on_behalf_of("")  # it was begun by one of many, for all of them
        try:
            while self._queue:
                batch = self._take()
                batch.sort(key=lambda pair: self._key(pair[0]))
                await self._commit_batch(batch)
        finally:
            self._task = None

    def _take(self) -> list[tuple[Item, asyncio.Future[Verdict]]]:
        """The next batch: of one namespace as much as fits; of several a share of each, however little that is."""
        alone = len({self._key(item)[0] for item, _ in self._queue}) == 1
        share = self._most if alone else max(1, self._most // SHARE)
        shares: dict[str, int] = {}
        batch: list[tuple[Item, asyncio.Future[Verdict]]] = []
        left: list[tuple[Item, asyncio.Future[Verdict]]] = []
        while self._queue and len(batch) < self._most:
            pair = self._queue.popleft()
            namespace = self._key(pair[0])[0]
            taken = shares.get(namespace, 0)
            if taken < share:
                shares[namespace] = taken + 1
                batch.append(pair)
            else:
                left.append(pair)
        self._queue.extendleft(reversed(left))
        return batch

    async def _commit_batch(self, batch: list[tuple[Item, asyncio.Future[Verdict]]]) -> None:
        try:
            verdicts = await self._retried([item for item, _ in batch])
        except Unavailable as error:
            for _, future in batch:
                _fail(future, error)
        except Exception as error:
            if len(batch) == 1:
                logger.exception("an append was refused by the database")
                _fail(batch[0][1], error)
                return
            for pair in batch:
                await self._commit_batch([pair])
        else:
            self.commits += 1
            self.items += len(batch)
            for (_, future), verdict in zip(batch, verdicts, strict=True):
                if not future.done():
                    future.set_result(verdict)

    async def _retried(self, items: list[Item]) -> Sequence[Verdict]:
        for attempt in range(1, RETRIES_MAX + 1):
            try:
                return await self._commit(items)
            except RETRIED:
                logger.warning("a batch of %d appends is retried (attempt %d)", len(items), attempt)
                if attempt == RETRIES_MAX:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")


def _fail(future: "asyncio.Future[Verdict]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
