"""Answers the questions of the control plane in the sandbox's children."""

import asyncio
import logging
from dataclasses import asdict

import orjson

from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import WorkerId
from sandbox.store.postgres.requests import RequestDesk, SandboxRequest

logger = logging.getLogger(__name__)

ANSWERING_MAX = 4


class Answering:
    def __init__(self, desk: RequestDesk, children: ChildPool) -> None:
        self.look = asyncio.Event()
        self._desk = desk
        self._children = children
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer_open(self, worker: WorkerId) -> None:
        """Take what is open, as much as there is room for."""
        room = ANSWERING_MAX - len(self._tasks)
        if room <= 0:
            return
        for request in await self._desk.claim(worker, room):
            task = asyncio.create_task(self._answer(request))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    async def drain(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.look.set()

    async def _answer(self, request: SandboxRequest) -> None:
        try:
            answer, failure = await self._work(request), None
        except Exception as error:
            logger.exception("a request to %s failed", request.kind)
            answer, failure = None, f"{type(error).__name__}: {error}"
        try:
            await self._desk.answer(request.id, answer, failure)
        except RewindFault as error:
            logger.warning("an answer is lost, it will be asked for again: %s", error)

    async def _work(self, request: SandboxRequest) -> bytes:
        question = orjson.loads(request.payload)
        if request.kind != "strip":
            raise ValueError(f"unknown kind of request {request.kind}")
        result = await self._children.strip(question["source"], question["epoch"], tenant=request.namespace)
        if isinstance(result, Compiled):
            return orjson.dumps({"compiled": result.to_json(), "diagnostics": []})
        return orjson.dumps({"compiled": None, "diagnostics": [asdict(item) for item in result]})
