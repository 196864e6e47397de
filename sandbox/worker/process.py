"""The loops of one worker process, from its registration to its drain."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sandbox.config import DataPlaneSettings
from sandbox.epochs.registry import served_epochs
from sandbox.isolate.pool import ChildPool
from sandbox.journal.errors import Unavailable
from sandbox.store.blobs import BlobStore
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.interface import Share
from sandbox.store.postgres.connection import LOST
from sandbox.store.postgres.owner import HEARTBEAT_S, PostgresOwner
from sandbox.store.postgres.requests import RequestDesk
from sandbox.store.postgres.values import RecordedBlobs
from sandbox.worker.desk import Answering
from sandbox.worker.warm_runs import REPORT_S, WarmRuns

logger = logging.getLogger(__name__)

CLAIM_MAX = 64
BUSY_MAX = 128
"""Runs being activated or loaded at once; more stay for other workers."""
NAMESPACE_BUSY_MAX = 64
"""Of one namespace; the rest is for others, whatever that one's runs do."""
REAP_S = 0.15
SWEEP_S = 30.0
DRAIN_S = 8.0
RETRY_S = 0.5


async def run(settings: DataPlaneSettings) -> None:
    """Serve until SIGTERM or SIGINT; finish what is under way and release the rest within 10 s."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    epochs = served_epochs()
    hints = HintBus(settings.hints_dir, "worker")
    async with ChildPool(
        children=settings.worker_children, epochs=epochs, require_confinement=settings.require_confinement
    ) as children:
        store = await _until_reachable(
            lambda: PostgresOwner.open(settings.database_url, role=settings.database_role), stop
        )
        if store is None:
            return
        worker = Worker(settings, store, BlobStore(settings.s3), children, hints)
        hints.start()
        try:
            await worker.serve(stop)
        finally:
            hints.close()
            await store.close()


T = TypeVar("T")


async def _until_reachable(attempt: Callable[[], Awaitable[T]], stop: asyncio.Event) -> T | None:
    while not stop.is_set():
        try:
            return await attempt()
        except (Unavailable, *LOST) as error:
            logger.warning("the database is not reachable yet: %s", error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), RETRY_S)
    return None


class Worker:
    def __init__(
        self,
        settings: DataPlaneSettings,
        store: PostgresOwner,
        blobs: BlobStore,
        children: ChildPool,
        hints: HintBus,
    ) -> None:
        self._store = store
        self._hints = hints
        self._epochs = served_epochs()
        self._runs = WarmRuns(
            store, RecordedBlobs(store.pool, blobs), children, hints, warm_max=settings.warm_runs
        )
        self._desk = RequestDesk(store.pool, hints)
        self._answering = Answering(self._desk, children)
        self._look = asyncio.Event()
        self._claim_below = -1
        """With no more runs busy than this it is worth looking for those that were left to others."""
        self._runs.on_free = self._on_free
        self._stop = asyncio.Event()
        hints.on_message(self._on_hint)

    async def serve(self, stop: asyncio.Event) -> None:
        self._stop = stop
        if await _until_reachable(lambda: self._store.register(self._epochs), stop) is None:
            return
        logger.info("worker %s serves epochs %s (pid %s)", self._store.worker, self._epochs, os.getpid())
        loops = [
            asyncio.create_task(self._repeat(self._claim, POLL_MAX_S, self._look)),
            asyncio.create_task(self._repeat(self._reap, REAP_S)),
            asyncio.create_task(self._repeat(self._heartbeat, HEARTBEAT_S)),
            asyncio.create_task(self._repeat(self._runs.tidy, REPORT_S)),
            asyncio.create_task(self._repeat(self._look_for_lost_hints, POLL_MAX_S)),
            asyncio.create_task(self._repeat(self._answer, POLL_MAX_S, self._answering.look)),
            asyncio.create_task(self._repeat(self._desk.sweep, SWEEP_S)),
        ]
        await stop.wait()
        logger.info("worker %s drains %d runs", self._store.worker, len(self._runs))
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._answering.drain()
        await self._runs.drain(DRAIN_S)
        with contextlib.suppress(*LOST):
            await self._store.deregister()

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], every_s: float, wake: asyncio.Event | None = None
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
                await asyncio.wait_for(wake.wait(), every_s)

    async def _claim(self) -> None:
        self._claim_below = -1
        while (room := min(CLAIM_MAX, BUSY_MAX - self._runs.busy)) > 0:
            share = Share(self._runs.busy_by_namespace, NAMESPACE_BUSY_MAX)
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
        self._runs.look_again(await self._store.overdue_runs(self._store.worker, CLAIM_MAX))

    async def _answer(self) -> None:
        await self._answering.answer_open(self._store.worker)

    def _on_hint(self, message: Message) -> None:
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
        elif kind == "request":
            self._answering.look.set()
