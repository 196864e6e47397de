"""Answers the questions of the control plane in the sandbox's children."""

import asyncio
import logging

from sandbox.journal.errors import RewindFault
from sandbox.journal.ids import WorkerId
from sandbox.store.postgres.requests import RequestDesk, SandboxRequest
from sandbox.worker.answers.bench import Bench, Kind
from sandbox.worker.answers.check import check
from sandbox.worker.answers.fork_plan import fork_plan
from sandbox.worker.answers.replay import replay
from sandbox.worker.answers.strip import strip
from sandbox.worker.answers.test import try_script

logger = logging.getLogger(__name__)

KINDS: dict[str, Kind] = {
    "check": Kind(check),
    "strip": Kind(strip),
    "test": Kind(try_script, executes=True),
    "replay": Kind(replay, executes=True),
    "fork_plan": Kind(fork_plan, executes=True),
}
ANSWERING_MAX = 12
"""Questions that only read scripts, at once."""


class Answering:
    """Takes questions while there is room for their sort: reading scripts, or executing them."""

    def __init__(self, desk: RequestDesk, bench: Bench, *, children: int) -> None:
        self.look = asyncio.Event()
        self._desk = desk
        self._bench = bench
        self._tasks: dict[asyncio.Task[None], bool] = {}
        # An activation may take seconds of a child: all children but one may be busy with questions.
        self._room = {False: ANSWERING_MAX, True: max(1, children - 1)}

    async def answer_open(self, worker: WorkerId) -> None:
        """Take what is open, as much as there is room for."""
        for executes, most in self._room.items():
            room = most - sum(busy == executes for busy in self._tasks.values())
            kinds = [name for name, kind in KINDS.items() if kind.executes == executes]
            if room <= 0 or not kinds:
                continue
            for request in await self._desk.claim(worker, room, kinds):
                task = asyncio.create_task(self._answer(request))
                self._tasks[task] = executes
                task.add_done_callback(self._done)

    async def drain(self, within_s: float) -> None:
        """Finish what is under way; what takes longer is given up, and taken by another worker."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self.look.set()

    async def _answer(self, request: SandboxRequest) -> None:
        try:
            async with asyncio.timeout(request.left_ms / 1000):
                answer, failure = await KINDS[request.kind].answer(self._bench, request), None
        except TimeoutError:
            answer, failure = None, "it took too long"
        except Exception as error:
            logger.exception("a request to %s failed", request.kind)
            answer, failure = None, f"{type(error).__name__}: {error}"
        try:
            await self._desk.answer(request, answer, failure)
        except RewindFault as error:
            logger.warning("an answer is lost, it will be asked for again: %s", error)
