"""The customer's part of a simulation: workers of host tools, and the product that started the runs."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from app.tasks.settling import completed
from app.tasks.strays import Strays
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import (
    Actor,
    ApprovalDecided,
    CancelRequested,
    EntryType,
    SignalReceived,
    ToolFailure,
    Value,
)
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId
from sandbox.store.approvals import Decision
from sandbox.store.hints import Message
from sandbox.store.interface import LEASE_MS, EventAppend, EventVerdict, Guard, StartRun, Task, TaskFilter
from sandbox.store.leases import leased_task, park_message, unpark_message
from sandbox.store.memory_runs import MemoryRun
from sandbox.store.postgres.tasks import key_of
from tests.simulation.loop import Process
from tests.simulation.script import NAMES
from tests.simulation.starting import ORGANIZATION, Where
from tests.simulation.wire import Endpoint, Line
from tests.simulation.world import World

RETRY_S = 0.2
HEARTBEAT_S = 10.0
MUTE_S = 45.0
SLOTS = 4
BIG = 0.1
"""So many values are too big for an entry."""
DRILL = "a drill of the simulation"


async def patiently(work: Callable[[], Awaitable[Any]]) -> Any:
    """Do what is harmless to repeat until the store answers."""
    while True:
        try:
            return await work()
        except Unavailable:
            await asyncio.sleep(RETRY_S)


class Executor:
    """A worker of host tools with the part of an api that serves it: claims, executes, reports until it is heard."""

    def __init__(self, world: World, process: Process, namespace: NamespaceId | None) -> None:
        self._world = world
        self._random = Random(world.random.getrandbits(64))
        self._process = process
        self._hints = Endpoint(world, process, "api")
        self._line = Line(world, process, self._hints)
        self._wanted = TaskFilter(ORGANIZATION, namespace)
        self._strays = Strays(self._line, process.clock)  # type: ignore[arg-type]
        self._claim = ""
        self._leased: dict[object, Task] = {}
        self._look = asyncio.Event()
        self._working: dict[object, asyncio.Task[None]] = {}
        self._hints.on_message(self._on_hint)

    def _on_hint(self, message: Message) -> None:
        if message["k"] == "leased":
            task = leased_task(message)
            if message["claim"] == self._claim:
                self._leased[key_of(task)] = task
            else:
                self._strays.on_hint(message["claim"], task, self._look.set)
        if message["k"] in {"leased", "tasks"}:
            self._look.set()

    async def serve(self) -> None:
        for number in range(1_000_000):
            self._claim = f"{self._process.name} {number}"
            await self._serve_claim(self._claim)

    async def _serve_claim(self, claim: str) -> None:
        self._look.clear()
        room = SLOTS - len(self._working)
        if room <= 0:
            await asyncio.wait(self._working.values(), return_when=asyncio.FIRST_COMPLETED)
            return
        self._hints.send("worker", park_message(claim, self._wanted, room, self._hints.address))
        try:
            async with asyncio.timeout(1.0):
                await self._look.wait()
        except TimeoutError:
            """Nothing was heard: look."""
        found = await patiently(lambda: self._line.claim_tasks(self._wanted, claim, room, LEASE_MS))
        self._claim = ""
        self._strays.closed(claim, found)
        self._hints.send("worker", unpark_message(claim, self._wanted))
        for task in found:
            self._begin(task)

    def _begin(self, task: Task) -> None:
        key = key_of(task)
        if key not in self._working:  # the SDK executes a token once
            self._working[key] = asyncio.create_task(self._execute(task))

    async def _execute(self, task: Task) -> None:
        try:
            if self._random.random() < 0.1:
                await patiently(
                    lambda: self._line.release_tasks([key_of(task)], [self._random.choice((None, 500))])
                )
                return
            if await self._work(task):
                await self._report(task)
        finally:
            self._working.pop(key_of(task), None)

    async def _work(self, task: Task) -> bool:
        """False: somebody else has settled it."""
        if self._random.random() < 0.1:
            deferred = await patiently(
                lambda: self._line.defer_tasks([key_of(task)], [self._random.choice((2_000, 40_000))])
            )
            if not deferred[0]:
                return False
        left = self._random.choice((0.0, 0.01, 1.0, 15.0, 45.0))
        mute = self._random.random() < 0.2  # it works, and is not heard of meanwhile: its lease runs out
        left = MUTE_S if mute else left
        acts_at = left * self._random.random()
        acted = False
        while left > 0 or not acted:
            step = min(left, HEARTBEAT_S)
            if not acted and acts_at <= step:
                await asyncio.sleep(acts_at)
                self._world.effect(task.run, task.call, task.body, idempotent=task.tool.endswith("again"))
                acted = True
                step -= acts_at
                left -= acts_at
            acts_at -= step
            await asyncio.sleep(step)
            left -= step
            if left > 0 and not mute:
                ((until, stop),) = await patiently(
                    lambda: self._line.heartbeat_tasks([key_of(task)], LEASE_MS)
                )
                if until is None or (stop and not acted):
                    return acted
        return True

    async def _report(self, task: Task) -> None:
        text, big = str(task.call).encode(), self._random.random() < BIG
        outcome: Value | ToolFailure = self._world.put(task.namespace, text, big=big)
        if self._random.random() < 0.2:
            outcome = ToolFailure("ToolError", "tool_failed", "it failed")
        body = encode_body(completed(task.call, task.attempt, task.begun_at, outcome))
        event = EventAppend(
            task.namespace,
            task.run,
            EntryType.TOOL_CALL_COMPLETED,
            body,
            Guard.CALL,
            n=task.call,
            attempt=task.attempt,
        )
        for _ in range(self._random.choice((1, 1, 2))):
            await patiently(lambda: self._line.append_event(event))


class Harness:
    """The product that started the runs: signals, cancels; at the end it ends what does not end by itself."""

    def __init__(self, world: World, process: Process) -> None:
        self._random = Random(world.random.getrandbits(64))
        self._world = world
        self.line = Line(world, process, Endpoint(world, process, "api"))

    @property
    def runs(self) -> dict[Where, MemoryRun]:
        """All that there are, children and forks too."""
        return self._world.journals.runs

    async def start(self, request: StartRun) -> None:
        await patiently(lambda: self.line.start_run(replace(request)))

    async def annoy(self, lasts_s: float, forks_max: int) -> None:
        """Signals with ids that come again, cancels, forks of whatever has ended, for a while."""
        sent = 0
        loop = self._world.loop
        ends = loop.time() + lasts_s
        while loop.time() < ends:
            await asyncio.sleep(self._random.expovariate(0.7))
            where = self._random.choice(list(self.runs))
            chance = self._random.random()
            if chance < 0.15:
                await self.decide(where)
            elif chance < 0.2:
                await self.operate(where)
            elif chance < 0.32 and self._world.starting.forks < forks_max:
                await self.fork(where)
            elif chance < 0.94:
                sent += self._random.choice((0, 1, 1, 1))
                await self.signal(where, f"{lasts_s} {sent}")
            else:
                await self.cancel(where, self._random.choice(("user", "parent")))

    async def fork(self, parent: Where) -> None:
        request = await self._world.starting.fork(parent)
        if request is None:
            self._world.counts["forks refused"] += 1
            return
        self._world.counts[f"forks of {self.runs[parent].status.name.lower()} runs"] += 1
        await self.start(request)
        if self._random.random() < 0.3:  # while it is being made
            await asyncio.sleep(self._random.choice((0.0, 0.1, 0.2, 0.4, 1.0)))
            await self.operate((request.namespace, request.run), gives_up=0.5)

    async def signal(self, where: Where, ident: str) -> EventVerdict:
        actor = Actor(self._random.choice(("key", "token")), "k")
        text, big = json.dumps(ident).encode(), self._random.random() < BIG
        payload = self._world.put(where[0], text, big=big)
        body = SignalReceived(self._random.choice(NAMES), payload, ident, None, actor)
        return await self.event(where, EntryType.SIGNAL_RECEIVED, encode_body(body), Guard.SIGNAL, ident)

    async def decide(self, where: Where) -> None:
        """Approve or deny what waits for it, now and then twice."""
        run = self.runs[where]
        for row in [row for row in run.calls_pending() if row.gated]:
            for _ in range(self._random.choice((1, 1, 2))):
                decision = self._random.choice(("approved", "approved", "denied"))
                decided = ApprovalDecided(row.n, decision, by="member", actor=Actor("member", "m"))  # type: ignore[arg-type]
                ordered = Decision(*where, row.name or "", decided)
                await patiently(partial(self.line.decide_approval, ordered))

    async def operate(self, where: Where, gives_up: float = 0.2) -> None:
        """A drill: the run is quarantined, whoever has it; then released, or given up."""
        await patiently(lambda: self.line.quarantine_by_operator(*where, {"message": DRILL}))
        await asyncio.sleep(self._random.choice((0.0, 0.5, 5.0)))
        if self._random.random() < gives_up:
            await patiently(lambda: self.line.abandon_quarantined(*where))
        else:
            await patiently(lambda: self.line.release_quarantined(*where))

    async def cancel(self, where: Where, reason: Any) -> EventVerdict:
        body = encode_body(CancelRequested(reason=reason))
        return await self.event(where, EntryType.CANCEL_REQUESTED, body, Guard.CANCEL, None)

    async def event(
        self, where: Where, type_: EntryType, body: bytes, guard: Guard, signal_id: str | None
    ) -> EventVerdict:
        event = EventAppend(*where, type_, body, guard, signal_id=signal_id)
        verdict: EventVerdict = await patiently(lambda: self.line.append_event(event))
        return verdict
