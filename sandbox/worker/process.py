"""The loops of one worker process, from its registration to its drain."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sandbox.compiler.check import Checker
from sandbox.compiler.toolset import ToolsetCache
from sandbox.config import DataPlaneSettings
from sandbox.isolate.pool import ChildPool
from sandbox.journal.errors import Unavailable
from sandbox.store.blobs import BlobStore
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.postgres.connection import LOST
from sandbox.store.postgres.owner import PostgresOwner
from sandbox.store.postgres.requests import RequestDesk
from sandbox.store.postgres.values import RecordedBlobs
from sandbox.store.sealing import DataKey
from sandbox.worker.answers.bench import Bench
from sandbox.worker.desk import Answering
from sandbox.worker.ownership import Ownership, repeat
from sandbox.worker.warm_runs import WarmRuns

logger = logging.getLogger(__name__)

SWEEP_S = 30.0
DRAIN_S = 8.0
RETRY_S = 0.5


async def run(settings: DataPlaneSettings) -> None:
    """Serve until SIGTERM or SIGINT; finish what is under way and release the rest within 10 s."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    data_key = DataKey.from_file(settings.data_key_file, make=settings.make_data_key)
    hints = HintBus(settings.hints_dir, "worker")
    confined = settings.require_confinement
    async with (
        ChildPool(children=settings.worker_children, require_confinement=confined) as children,
        Checker(require_confinement=confined) as checker,
    ):
        store = await _until_reachable(
            lambda: PostgresOwner.open(settings.database_url, data_key=data_key, role=settings.database_role),
            stop,
        )
        if store is None:
            return
        worker = Worker(settings, store, BlobStore(settings.s3), children, checker, hints)
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
                async with asyncio.timeout(RETRY_S):
                    await stop.wait()
    return None


class Worker:
    def __init__(
        self,
        settings: DataPlaneSettings,
        store: PostgresOwner,
        blobs: BlobStore,
        children: ChildPool,
        checker: Checker,
        hints: HintBus,
    ) -> None:
        self._store = store
        self._hints = hints
        self._epochs = children.epochs
        recorded = RecordedBlobs(store.pool, blobs, store.keys)
        self._runs = WarmRuns(store, recorded, children, hints, warm_max=settings.warm_runs)
        self._desk = RequestDesk(store.pool, hints, store.keys)
        bench = Bench(children, checker, ToolsetCache(), store, recorded)
        self._answering = Answering(self._desk, bench, children=settings.worker_children)
        self._ownership = Ownership(store, self._runs, hints, self._epochs)
        self._stop = asyncio.Event()
        hints.on_message(self._on_hint)
        hints.on_message(store.keys.on_hint)

    async def serve(self, stop: asyncio.Event) -> None:
        self._stop = stop
        if await _until_reachable(lambda: self._store.register(self._epochs), stop) is None:
            return
        logger.info("worker %s serves epochs %s (pid %s)", self._store.worker, self._epochs, os.getpid())
        loops = [
            *self._ownership.loops(),
            asyncio.create_task(repeat(self._answer, POLL_MAX_S, self._answering.look)),
            asyncio.create_task(repeat(self._desk.sweep, SWEEP_S)),
        ]
        asked = asyncio.create_task(self._store.asked_to_drain.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        stopped.cancel()
        logger.info("worker %s drains %d runs", self._store.worker, len(self._runs))
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await asyncio.gather(self._answering.drain(DRAIN_S), self._runs.drain(DRAIN_S))
        with contextlib.suppress(*LOST):
            await self._store.deregister()

    async def _answer(self) -> None:
        await self._answering.answer_open(self._store.worker)

    def _on_hint(self, message: Message) -> None:
        if message.get("k") == "request":
            self._answering.look.set()
        else:
            self._ownership.on_hint(message)
