"""What a worker does about runs: claims them, frees those of dead workers, stays alive, hands hints on.

Everything here goes through a few protocols, so that the seeded simulation runs this very code.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import Epoch, NamespaceId, RunId, WorkerId
from sandbox.store.hints import POLL_MAX_S, Message
from sandbox.store.interface import EVERYTHING, ClaimedRun, Share
from sandbox.store.postgres.connection import LOST
from sandbox.store.postgres.owner import HEARTBEAT_S
from sandbox.worker.warm_runs import REPORT_S, Hints, WarmRuns

logger = logging.getLogger(__name__)

CLAIM_MAX = 64
BUSY_MAX = 128
"""Runs being activated or loaded at once; more stay for other workers."""
NAMESPACE_BUSY_MAX = 32
"""Of one namespace; the rest is for others, whatever that one's runs do. Also what another's run finds before it."""
REAP_S = 0.15


class WorkerSessions(Protocol):
    """The store as a registered worker sees it."""

    worker: WorkerId

    async def register(self, epochs: Sequence[Epoch]) -> WorkerId: ...
    async def heartbeat(self) -> bool: ...
    async def reap_workers(self) -> int: ...
    async def claim_runs(
        self, worker: WorkerId, epochs: Sequence[Epoch], limit: int, share: Share = EVERYTHING
    ) -> list[ClaimedRun]: ...
    async def overdue_runs(self, worker: WorkerId, limit: int) -> list[tuple[NamespaceId, RunId]]: ...


class Ownership:
    def __init__(self, store: WorkerSessions, runs: WarmRuns, hints: Hints, epochs: Sequence[Epoch]) -> None:
        self._store = store
        self._runs = runs
        self._hints = hints
        self._epochs = epochs
        self._look = asyncio.Event()
        self._claim_below = -1
        """With no more runs busy than this it is worth looking for those that were left to others."""
        self._claiming = asyncio.Lock()
        runs.on_free = self._on_free

    def loops(self) -> list[asyncio.Task[None]]:
        """Start the loops of a worker that is registered."""
        return [
            asyncio.create_task(repeat(self._claim, POLL_MAX_S, self._look)),
            asyncio.create_task(repeat(self._reap, REAP_S)),
            asyncio.create_task(repeat(self._heartbeat, HEARTBEAT_S)),
            asyncio.create_task(repeat(self._runs.tidy, REPORT_S)),
            asyncio.create_task(repeat(self._look_for_lost_hints, POLL_MAX_S)),
        ]

    def on_hint(self, message: Message) -> None:
        kind = message.get("k")
        if kind == "event":
            self._runs.on_event(message)
        elif kind == "ready":
            self._look.set()
        elif kind == "park":
            self._runs.parked.on_park(message)
        elif kind == "unpark":
            self._runs.parked.on_unpark(message)
        elif kind == "watch":
            self._runs.watched.on_watch(message)

    async def _claim(self) -> None:
        self._claim_below = -1
        while (room := min(CLAIM_MAX, BUSY_MAX - self._runs.busy)) > 0:
            share = Share(self._runs.busy_by_namespace, NAMESPACE_BUSY_MAX)
            async with self._claiming:
                claimed = await self._store.claim_runs(self._store.worker, self._epochs, room, share)
                self._runs.adopt(claimed)
            if len(claimed) < room:
                break
        if room <= 0 or max(self._runs.busy_by_namespace.values(), default=0) >= NAMESPACE_BUSY_MAX:
            self._claim_below = self._runs.busy // 2

    def _on_free(self) -> None:
        if self._runs.busy <= self._claim_below:
            self._look.set()

    async def _reap(self) -> None:
        if await self._store.reap_workers():
            self._look.set()
            self._hints.send("worker", {"k": "ready"})

    async def _heartbeat(self) -> None:
        if await self._store.heartbeat():
            return
        logger.warning("worker %s was superseded or lost its session; it begins anew", self._store.worker)
        await self._runs.abandon()
        await self._store.register(self._epochs)

    async def _look_for_lost_hints(self) -> None:
        """See to owned runs with undelivered events; those that nobody here knows of are given back.

        The latter were claimed by a statement whose answer was lost: without this they would wait as long as
        this worker lives.
        """
        async with self._claiming:
            overdue = await self._store.overdue_runs(self._store.worker, CLAIM_MAX)
            unknown = self._runs.look_again(overdue)
        if unknown:
            logger.warning("%d runs that were claimed and never heard of are given back", len(unknown))
            await self._runs.give_back(unknown)
            self._look.set()


async def repeat(
    work: Callable[[], Awaitable[None]], every_s: float, wake: asyncio.Event | None = None
) -> None:
    """Do the work again and again; a dependency that is away is waited for, a fault is logged."""
    wake = wake or asyncio.Event()
    while True:
        wake.clear()
        try:
            await work()
        except Unavailable as error:
            logger.warning("%s", error)
        except LOST as error:
            logger.warning("the database is not reachable: %s", error)
        except Exception:
            logger.exception("a loop of the worker failed; it goes on")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await wake.wait()
