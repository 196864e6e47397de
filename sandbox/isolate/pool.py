"""The sandbox processes of a worker: about one per core, each with many isolates, replaced when they die.

A tenant whose scripts run long, or cost a process its life, has the first process of its epoch from then on, with
all others like it; whoever is not like that stays out of it as long as one of these is in there.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import orjson

from sandbox.epochs.registry import FOLDER, served_epochs
from sandbox.isolate.api import ChildDied, Delivery, IsolateLost, LimitExceeded, RunSetup, SandboxFault
from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.isolate.compilers import Compilers
from sandbox.isolate.frames import Frame
from sandbox.isolate.process import ChildProcess, answer_json, start_child
from sandbox.isolate.slow import SlowTenants
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import Epoch

logger = logging.getLogger(__name__)

SCRIPT_CHILD = "sandbox.isolate.child"
COMPILER_CHILD = "sandbox.compiler.child"
BLANKS_PER_CHILD = 4
ISOLATES_PER_CHILD_MAX = 400
"""Beyond it the one that was idle longest is dropped; its run replays when it goes on. The process's memory
limit would allow twice as many."""
IDLE_BYTES_MAX = 512 * 1024 * 1024
"""Resident memory that a child may keep between deliveries. Beyond it isolates are dropped, those that hold most
first: what idle runs keep must not be taken for the fault of the next one."""
ISOLATE_BYTES = 512 * 1024
"""What every isolate holds at least."""
LONE_CHILDREN_MAX = 2
"""Runs under suspicion at once, each in a child of its own; others wait."""
OPEN_BUDGET_US = 5_000_000
SLOW_US = 1_000_000
"""Of CPU for one event: above it, its tenant counts as slow for a while."""


class IsolateInChild:
    """One run's isolate. Implements api.IsolateHandle."""

    def __init__(self, pool: "ChildPool", child: ChildProcess, number: int, setup: RunSetup) -> None:
        self._pool = pool
        self._child = child
        self._number = number
        self._setup = setup
        self._open = True
        self._busy = False
        self._held_bytes = 0
        self.on_closed: Callable[[], None] | None = None
        child.isolates[number] = self

    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        if self._open and self._pool.misplaced(self._child, self._setup):
            self.drop()
        if not self._open:
            raise IsolateLost("the isolate was dropped")
        budget_us = self._setup.cpu_ms_per_event * 1_000 * cpu_factor
        request = Frame(
            {"op": "deliver", "id": self._number, "budget_us": budget_us}, b"[" + b",".join(events) + b"]"
        )
        self._busy = True
        try:
            answer = await self._child.ask_watched(
                request,
                tenant=self._setup.tenant,
                budget_us=budget_us,
                heap_bytes=self._setup.heap_bytes,
                events=events,
            )
        except (LimitExceeded, ChildDied, SandboxFault) as error:
            self._forget()
            if isinstance(error, LimitExceeded):
                self._pool.slow.add(self._setup.tenant)
            raise
        finally:
            self._busy = False
        if answer.header["cpu_us"] >= SLOW_US * max(1, len(events)):
            self._pool.slow.add(self._setup.tenant)
        self._held_bytes += self._child.grown_bytes
        if self._open:
            self._child.isolates.move_to_end(self._number)
        _relieve(self._child)
        result = answer_json(answer)
        return Delivery(
            commands=result["commands"],
            waits_done=result["waits_done"],
            stage=result["stage"],
            delivered=result["delivered"],
            cpu_us=answer.header["cpu_us"],
        )

    @property
    def tenant(self) -> str:
        return self._setup.tenant

    @property
    def idle(self) -> bool:
        return not self._busy

    @property
    def held_bytes(self) -> int:
        return max(self._held_bytes, ISOLATE_BYTES)

    async def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        """Free the isolate. Whoever still holds the handle gets IsolateLost, and loads again."""
        if self._open:
            self._child.tell(Frame({"op": "close", "id": self._number}))
            self._forget()

    def _forget(self) -> None:
        self._open = False
        self._child.isolates.pop(self._number, None)
        if self.on_closed is not None:
            self.on_closed()
            self.on_closed = None


class ChildPool:
    """`async with ChildPool(children=2) as pool`; a child that dies is replaced by the next request.

    Errors at the start: SandboxFault.
    """

    def __init__(
        self,
        *,
        children: int,
        epochs: Sequence[int] | None = None,
        require_confinement: bool = False,
        blanks: int = BLANKS_PER_CHILD,
        folder: Path = FOLDER,
    ) -> None:
        self._size = children
        self.epochs = tuple(Epoch(epoch) for epoch in (served_epochs(folder) if epochs is None else epochs))
        self._folder = str(folder)
        """Where the epochs are."""
        self._require_confinement = require_confinement
        self._blanks = blanks
        self._children: dict[int, list[ChildProcess]] = {epoch: [] for epoch in self.epochs}
        self._compilers = Compilers(self._start_compiler)
        self._lone: list[ChildProcess] = []
        self._lone_room = asyncio.Semaphore(LONE_CHILDREN_MAX)
        self._numbers = itertools.count(1)
        self._starting = [asyncio.Lock() for _ in range(children)]
        self.slow = SlowTenants()
        self.confinement: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        try:
            for epoch in self.epochs:
                started = await asyncio.gather(*(self._start(epoch) for _ in range(self._size)))
                self._children[epoch] = list(started)
                self.confinement = started[0].confinement
        except BaseException:
            await self._stop_all()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._stop_all()

    @property
    def children(self) -> list[ChildProcess]:
        return [child for children in self._children.values() for child in children if not child.dead]

    async def open(self, setup: RunSetup) -> IsolateInChild:
        """An isolate of the run's epoch with its script, in the least loaded child it may use or in one of its own.

        Errors: SandboxFault (an epoch that is not served, a script that does not compile), ChildDied,
        Unavailable (no child can be started now).
        """
        if setup.epoch not in self._children:
            raise SandboxFault(f"epoch {setup.epoch} is not served here")
        try:
            child = await (self._lone_child(setup.epoch) if setup.alone else self._child_for(setup))
        except (SandboxFault, OSError) as error:
            raise Unavailable(f"no sandbox process can be started: {error}") from error
        number = next(self._numbers)
        _make_room(child)
        script = setup.compiled.wrapper().encode()
        header = {"op": "open", "id": number, "heap_bytes": setup.heap_bytes, "script_bytes": len(script)}
        handle = IsolateInChild(self, child, number, setup)
        if setup.alone:
            handle.on_closed = lambda: self._leave(child)
        try:
            await child.ask_watched(
                Frame(header, script + _setup_json(setup)),
                tenant=setup.tenant,
                budget_us=OPEN_BUDGET_US,
                heap_bytes=setup.heap_bytes,
            )
        except BaseException as error:
            if isinstance(error, LimitExceeded):
                self.slow.add(setup.tenant)
            handle.drop()
            raise
        return handle

    def misplaced(self, child: ChildProcess, setup: RunSetup) -> bool:
        """Whether a run of this tenant should be in another child by now."""
        children = self._children[setup.epoch]
        if setup.alone or len(children) < 2:
            return False
        return (child is children[0]) != (setup.tenant in self.slow) and (
            child is not children[0] or self._has_slow(child)
        )

    def _has_slow(self, child: ChildProcess) -> bool:
        return len(self.slow) > 0 and any(isolate.tenant in self.slow for isolate in child.isolates.values())

    async def strip(self, source: str, epoch: int, *, tenant: str = "") -> Compiled | list[Diagnostic]:
        """Blank the types of a script, in a process of its own that is replaced on any trouble.

        Errors: ChildDied when the compiler gave no answer; the script may be too complex.
        """
        answer = await self._compilers.strip(source, epoch, tenant=tenant)
        result = orjson.loads(answer.body)
        if result["compiled"] is not None:
            return Compiled.from_json({**result["compiled"], "epoch": epoch})
        return [Diagnostic.from_json(diagnostic) for diagnostic in result["diagnostics"]]

    async def _child_for(self, setup: RunSetup) -> ChildProcess:
        """The least loaded of those that the tenant may use; each that is dead is replaced before."""
        children = self._children[setup.epoch]
        places = range(self._size)
        if self._size > 1:
            if setup.tenant in self.slow:
                places = range(1)
            elif self._has_slow(children[0]):
                places = range(1, self._size)
        usable = [await self._alive(setup.epoch, place) for place in places]
        return min(usable, key=lambda child: (child.turns.taken, len(child.isolates)))

    async def _alive(self, epoch: int, place: int) -> ChildProcess:
        children = self._children[epoch]
        async with self._starting[place]:
            if children[place].dead:
                await children[place].stop()
                children[place] = await self._start(epoch)
            return children[place]

    async def _lone_child(self, epoch: int) -> ChildProcess:
        await self._lone_room.acquire()
        try:
            for child in [child for child in self._lone if child.dead]:
                self._lone.remove(child)
                await child.stop()
            child = await self._start(epoch, blanks=0)
        except BaseException:
            self._lone_room.release()
            raise
        self._lone.append(child)
        return child

    def _leave(self, child: ChildProcess) -> None:
        """The run that had this child for itself is done with it."""
        child.kill()
        self._lone_room.release()

    async def _start_compiler(self, epoch: int) -> ChildProcess:
        return await start_child(
            COMPILER_CHILD, (str(epoch), self._folder), require_confinement=self._require_confinement
        )

    async def _start(self, epoch: int, *, blanks: int | None = None) -> ChildProcess:
        wanted = self._blanks if blanks is None else blanks
        return await start_child(
            SCRIPT_CHILD,
            (str(epoch), self._folder, str(wanted)),
            require_confinement=self._require_confinement,
        )

    async def _stop_all(self) -> None:
        everyone = [*itertools.chain(*self._children.values()), *self._lone]
        self._lone = []
        self._children = {epoch: [] for epoch in self.epochs}
        await self._compilers.stop()
        for child in everyone:
            with contextlib.suppress(OSError):
                await child.stop()


def _make_room(child: ChildProcess) -> None:
    if len(child.isolates) >= ISOLATES_PER_CHILD_MAX:
        oldest = next((isolate for isolate in child.isolates.values() if isolate.idle), None)
        if oldest is not None:
            oldest.drop()


def _relieve(child: ChildProcess) -> None:
    excess = child.resident_bytes - IDLE_BYTES_MAX
    if excess <= 0:
        return
    for isolate in sorted(child.isolates.values(), key=lambda one: one.held_bytes, reverse=True):
        if excess > 0 and isolate.idle:
            excess -= isolate.held_bytes
            isolate.drop()


def _setup_json(setup: RunSetup) -> bytes:
    return orjson.dumps(
        {
            "run": setup.run,
            "namespace": setup.namespace,
            "tools": [{"name": tool.name, "gated": tool.gated} for tool in setup.tools],
            "params": setup.compiled.imports_json(),
            "result_at": {"line": setup.compiled.line, "column": setup.compiled.column},
        }
    )
