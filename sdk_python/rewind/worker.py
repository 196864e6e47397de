"""The host-tool worker: claims calls, runs the Python functions, reports what came out.

Reporting and claiming share one exchange (`POST /v1/tasks/complete` with `claim`): a run that calls one tool after
the other costs one exchange per call. A claim asks for no more than the free slots and is repeated under its own
`claim_id` until it is answered, so that tasks leased to an answer that got lost come again.

Invariants: a token is executed at most once; an outcome is reported until the server has taken it or says that
the task is settled; slots are held by running tools and by claims under way, never both.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from rewind._claims import Claim, Claims
from rewind._core import AsyncCore, decode
from rewind._errors import ApiError, ConfigurationError, ConnectionFailed
from rewind._execution import Execution
from rewind._leases import Leases
from rewind._outbox import Outbox, Outcome
from rewind._retry import delay_s
from rewind._tools import AnyTool, Tool, as_tool
from rewind._types import Task

logger = logging.getLogger("rewind.worker")
SEEN_MAX = 10_000
ANSWER_MARGIN_S = 10.0
EXPRESS_DELAY_S = 0.001
"""How long an outcome waits for a lane that claims too, while all of them are under way."""
BACKOFF_STEP_MAX = 4
"""Back-off grows to this step (at most 1.6 s): a server that comes back is found soon."""
PAUSE_S_MAX = 5.0
"""Whatever Retry-After says: outcomes wait, and leases run."""
EMPTY_ANSWER_PAUSE_S = 0.05
"""Pause after a claim that was answered before its time with nothing, as by a server that is leaving."""
_CULPRIT_STATUSES = frozenset({400, 413, 422})


class _BatchRefused(Exception):
    """An exchange was refused because of one of its outcomes; they are sent again one by one."""


@dataclass(slots=True)
class Counters:
    """What this worker has done, for logs and tests."""

    exchanges: int = 0
    executed: int = 0
    reported: int = 0
    released: int = 0


class Worker:
    """Serve host tools: `await worker` until cancelled, or `async with worker:` in the background."""

    def __init__(
        self,
        core: AsyncCore,
        *,
        tools: Sequence[AnyTool],
        toolset: str | None = None,
        namespace: str | None = None,
        max_slots: int = 10,
        lanes: int = 4,
        wait_s: float = 20.0,
        linger_ms: int = 0,
        drain_s: float = 30.0,
    ) -> None:
        """`max_slots`: calls at the same time. `drain_s`: how long running tools may finish on stop."""
        if max_slots < 1 or lanes < 1:
            raise ConfigurationError("max_slots and lanes must be at least 1")
        self._tools: dict[str, Tool] = {item.name: item for item in map(as_tool, tools)}
        if not self._tools:
            raise ConfigurationError("a worker needs at least one tool")
        self._core = core
        self._max_slots = max_slots
        self._lane_count = min(lanes, max_slots)
        self._wait_s = min(wait_s, 60.0)
        self._drain_s = drain_s
        self._claims = Claims(
            tools=sorted(self._tools),
            toolset=toolset,
            namespace=namespace or core.config.namespace,
            wait_s=self._wait_s,
            linger_ms=linger_ms,
        )
        self._heads: dict[str, bytes] = {}
        self.counters = Counters()
        self._running: dict[str, Execution] = {}
        self._outbox = Outbox()
        self._leases = Leases(core, self._running, self._outbox, self._head)
        self._seen: dict[str, None] = {}
        self._failures = 0
        self._connected = False
        self._waiting_lanes: list[asyncio.Future[None]] = []
        self._waiting_express: asyncio.Future[None] | None = None
        self._idle = asyncio.Event()
        self._draining = False
        self._threads: ThreadPoolExecutor | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._finished = asyncio.Event()

    # -- life

    def __await__(self) -> Generator[Any, None, None]:
        return self.run().__await__()

    async def run(self) -> None:
        """Serve until `stop()` or cancellation; both drain first. Errors: ApiError when the first claim is refused."""
        self._threads = ThreadPoolExecutor(self._max_slots, thread_name_prefix="rewind-tool")
        lanes = [asyncio.create_task(self._lane(), name=f"rewind-lane-{n}") for n in range(self._lane_count)]
        lanes.append(asyncio.create_task(self._express(), name="rewind-express"))
        beat = asyncio.create_task(self._leases.run(), name="rewind-heartbeats")
        stop = asyncio.create_task(self._until_stopped(), name="rewind-stop")
        try:
            done, _ = await asyncio.wait([*lanes, beat, stop], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await self._finish([*lanes, stop], beat)
            self._finished.set()

    async def run_until_signal(self) -> None:
        """Like `run`, and stop in order at SIGTERM or SIGINT; for a process that does nothing else."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._stop.set)
        try:
            await self.run()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def __aenter__(self) -> Self:
        """Start in the background; a refusal by the server is raised when the block is left."""
        self._main = asyncio.create_task(self.run(), name="rewind-worker")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        if self._main is not None:
            await self._main

    async def stop(self) -> None:
        """Take no more calls, let the running ones finish and be reported, give back the rest."""
        if self._threads is None and self._main is None:
            return
        self._stop.set()
        await self._finished.wait()

    async def _until_stopped(self) -> None:
        await self._stop.wait()

    # -- lanes

    async def _lane(self) -> None:
        """Exchange after exchange: report what is done and claim what fits."""
        claim: Claim | None = None
        while True:
            batch = self._outbox.take()
            claim = claim or self._new_claim(anything=bool(batch))
            if not batch and claim is None:
                await self._until_needed()
                continue
            began = time.monotonic()
            attached = None if batch and batch[0].alone else claim
            try:
                tasks = await self._exchange(batch, attached)
            except _BatchRefused:
                continue
            except (ApiError, ConnectionFailed) as error:
                await self._after_failure(error)
                continue
            if attached is not None:
                self._claims.close(attached)
                claim = None
            for task in tasks:
                self._accept(task)
            if tasks:
                await asyncio.sleep(0)  # tools that finish at once are reported by this lane's next exchange
            elif attached is not None and not batch and time.monotonic() - began < self._wait_s / 2:
                await asyncio.sleep(EMPTY_ANSWER_PAUSE_S)

    async def _express(self) -> None:
        """Reports outcomes without claiming, for when every lane is under way and may be so for long."""
        while True:
            if not self._outbox.waiting:
                self._waiting_express = asyncio.get_running_loop().create_future()
                await self._waiting_express
            while self._outbox.waiting:
                await asyncio.sleep(EXPRESS_DELAY_S)
                batch = self._outbox.take()
                if not batch:
                    break
                try:
                    await self._exchange(batch, None)
                except _BatchRefused:
                    continue
                except (ApiError, ConnectionFailed) as error:
                    await self._after_failure(error)

    def _new_claim(self, *, anything: bool) -> Claim | None:
        """A claim for all free slots; without outcomes to report only when no other claim is under way."""
        free = self._free_slots()
        if free < 1 or (self._claims.under_way and not anything):
            return None
        return self._claims.open(free)

    def _free_slots(self) -> int:
        return self._max_slots - len(self._running) - self._claims.held

    async def _until_needed(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting_lanes.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiting_lanes:
                self._waiting_lanes.remove(waiter)

    def _wake(self) -> None:
        """Something to report or a free slot: one lane is enough; the express only when all are under way."""
        while self._waiting_lanes:
            waiter = self._waiting_lanes.pop()
            if not waiter.done():
                waiter.set_result(None)
                return
        if self._waiting_express is not None and not self._waiting_express.done():
            self._waiting_express.set_result(None)

    # -- exchanges

    async def _exchange(self, batch: Sequence[Outcome], claim: Claim | None) -> list[dict[str, Any]]:
        """One request; on any error the batch is back in the outbox and nothing is known of its fate."""
        verb = batch[0].verb if batch else "claim"
        wait_s = self._wait_s if claim is not None else 0.0
        try:
            response = await self._core.transport.request(
                self._head(verb), self._body(batch, claim), wait_s + ANSWER_MARGIN_S
            )
            answer = decode(response).data
            if not isinstance(answer, dict):
                raise ConnectionFailed("the server's answer to a tasks call is no object")
        except ApiError as error:
            culprit = bool(batch) and error.status in _CULPRIT_STATUSES
            if culprit and self._outbox.refuse(batch, error.status, error.detail):
                raise _BatchRefused from error
            if not culprit:
                self._outbox.put_back(batch)
            raise
        except BaseException:
            self._outbox.put_back(batch)
            raise
        self._note_answer()
        self.counters.exchanges += 1
        if batch:
            self._settle(batch, answer.get("results") or [])
        tasks: list[dict[str, Any]] = answer.get("tasks") or []
        return tasks

    def _settle(self, batch: Sequence[Outcome], verdicts: Sequence[Any]) -> None:
        before = len(self._outbox)
        for _, verdict in self._outbox.settle(batch, verdicts):
            level = logging.DEBUG if verdict.get("code") == "task_settled" else logging.WARNING
            logger.log(
                level, "the server did not take an outcome: %s %s", verdict.get("code"), verdict.get("detail")
            )
        self.counters.reported += before - len(self._outbox)
        for outcome in batch:
            if outcome.token not in self._outbox:
                self._remember(outcome.token)
        if not self._outbox and not self._running:
            self._idle.set()

    def _body(self, batch: Sequence[Outcome], claim: Claim | None) -> bytes:
        asked = b"" if claim is None else self._claims.encode(claim, with_items=bool(batch))
        if not batch:
            return asked
        items = b",".join([outcome.item() for outcome in batch])
        return b'{"items":[%b]%b}' % (items, b',"claim":' + asked if asked else b"")

    def _head(self, verb: str) -> bytes:
        head = self._heads.get(verb)
        if head is None:
            head = self._core.head_of("POST", f"/v1/tasks/{verb}", [("Content-Type", "application/json")])
            self._heads[verb] = head
        return head

    def _note_answer(self) -> None:
        if self._failures and self._connected:
            logger.info("the server answers again")
        self._failures = 0
        self._connected = True

    async def _after_failure(self, error: Exception) -> None:
        """Back off; a refusal of the first claim ends the worker, since waiting would not change it."""
        if isinstance(error, ApiError) and error.status < 500 and error.status != 429 and not self._connected:
            raise error
        self._failures += 1
        if self._failures == 1:
            logger.warning("%s: %s; trying again", self._core.config.address.url, error)
        await asyncio.sleep(min(PAUSE_S_MAX, delay_s(min(self._failures, BACKOFF_STEP_MAX), error)))

    # -- tasks

    def _accept(self, data: dict[str, Any]) -> None:
        task = Task.from_wire(data)
        token = task.token
        if token in self._running or token in self._outbox or token in self._seen:
            return
        tool = self._tools.get(task.tool)
        if tool is None or self._free_slots() < 1 or self._draining:
            self.counters.released += 1
            self._outbox.put(Outcome(token, "release"))
            return
        self._leases.note(task.lease_ms)
        assert self._threads is not None
        self._running[token] = Execution(task, tool, self._threads, self._done)
        self.counters.executed += 1

    def _done(self, execution: Execution, outcome: Outcome | None) -> None:
        """Called when a tool has finished; None when it was stopped without an outcome."""
        token = execution.task.token
        self._running.pop(token, None)
        if outcome is None:
            self._remember(token)
            if not self._outbox and not self._running:
                self._idle.set()
        else:
            self._outbox.put(outcome)
        self._wake()

    def _remember(self, token: str) -> None:
        self._seen[token] = None
        if len(self._seen) > SEEN_MAX:
            del self._seen[next(iter(self._seen))]

    # -- the end

    async def _finish(self, lanes: Sequence[asyncio.Task[None]], beat: asyncio.Task[None]) -> None:
        """Drain: no claim stays unanswered, running tools end or are left to their lease, outcomes are reported."""
        self._draining = True
        await _cancelled(lanes)
        express = asyncio.create_task(self._express(), name="rewind-express")
        try:
            async with asyncio.timeout(self._drain_s):
                if self._connected:
                    await self._give_back()
                self._wake()
                while self._running or self._outbox:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            logger.warning(
                "stopped with %d tools running and %d outcomes unreported",
                len(self._running),
                len(self._outbox),
            )
        finally:
            for execution in list(self._running.values()):
                execution.abandon()
            await _cancelled([express, beat])
            if self._threads is not None:
                self._threads.shutdown(wait=False, cancel_futures=True)

    async def _give_back(self) -> None:
        """Ask once more, without waiting, for what was leased to claims whose answers won't be read; release it."""
        for claim in list(self._claims.under_way):
            self._claims.close(claim)
            with contextlib.suppress(ApiError, ConnectionFailed):
                body = self._claims.encode_last(claim)
                response = await self._core.transport.request(self._head("claim"), body, ANSWER_MARGIN_S)
                for task in decode(response).data["tasks"]:
                    self._accept(task)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
