"""Type-checks scripts against the declarations of their toolset, in confined children that can be killed.

A script can make any type-checker work for ever: each check has a child for itself, limits of time and memory,
and an answer for its author when it reaches them. Nobody else's check waits for it (`seats`).
"""

import asyncio
import contextlib
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from sandbox.compiler.context import Raw
from sandbox.compiler.main_types import MainTypes, main_types
from sandbox.compiler.toolset import NO_TOOLS, Toolset
from sandbox.compiler.tsc import Tsc, TscOverloaded, TscRefused, tsc_path
from sandbox.epochs.registry import CURRENT, EpochFiles, epoch_files
from sandbox.isolate.api import ChildDied, SandboxFault
from sandbox.isolate.seats import Seats
from sandbox.journal.ids import Epoch

logger = logging.getLogger(__name__)

CHILDREN = 3
WALL_MAX_S = 2.4
CPU_MAX_S = 2.0
"""The largest toolset that there is and a script of 256 KiB need less than half of it."""
CPU_FAIR_S = 0.5
WALL_STARVED_MAX_S = 8.0
"""On a machine with more to do than it can, a check that has had less than CPU_FAIR_S of CPU after WALL_MAX_S goes
on until here. The largest toolsets need 0.35 s."""
CPU_SLOW_S = 0.5
CPU_SLOW_FIRST_S = 1.0
"""Above it a check yields the processors to others, and its tenant counts as slow for a while. More for the first one
against a toolset in a child, which reads the declarations."""
WATCH_INTERVAL_S = 0.02
PROJECTS_MAX = 24
"""Toolsets open in one child; then it is replaced: closing one does not give its memory back."""
CHECKS_MAX = 5_000
"""Of one child, for the same reason."""
ROOT = "/check"
OPTIONS = {
    "strict": True,
    "target": "esnext",
    "module": "esnext",
    "moduleResolution": "bundler",
    "moduleDetection": "force",
    "erasableSyntaxOnly": True,
    "noLib": True,
    "types": [],
    "noEmit": True,
    "skipLibCheck": True,
}
ENTRY = 'import main from "./main";\nmain;\n'
_DIRECTIVES = re.compile(r"@ts-(?=nocheck|check|ignore|expect-error)")
_REFERENCES = re.compile(r"^([^\S\n]*)///(?=\s*<)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class TypeReport:
    """`too_complex`: the limits were reached, and there is nothing else to say."""

    diagnostics: list[Raw] = field(default_factory=list)
    types: MainTypes = field(default_factory=MainTypes)
    too_complex: bool = False


@dataclass(frozen=True, slots=True)
class _Job:
    source: str
    toolset: Toolset
    epoch: Epoch
    output: bool = False

    @property
    def key(self) -> str:
        return f"{self.epoch} {self.toolset.key}"


@dataclass
class _Spent:
    """On one check, over both of its attempts."""

    slow_at_s: float
    wall_s: float = 0.0
    cpu_s: float = 0.0
    reached: bool = False

    @property
    def slow(self) -> bool:
        return self.reached or self.cpu_s >= self.slow_at_s


@dataclass
class _Seat:
    """A place for one child, which is replaced when it dies."""

    slot: int
    tsc: Tsc | None = None
    projects: OrderedDict[str, str] = field(default_factory=OrderedDict)
    """Open toolsets by key: the folder of each."""
    snapshot: int | None = None
    checks: int = 0

    @property
    def alive(self) -> bool:
        return self.tsc is not None and not self.tsc.dead

    @property
    def worn(self) -> bool:
        return self.checks >= CHECKS_MAX or len(self.projects) >= PROJECTS_MAX


class Checker:
    """`async with Checker() as checker`; scripts of every epoch that this build serves. Errors: SandboxFault."""

    def __init__(self, *, children: int = CHILDREN, require_confinement: bool = False) -> None:
        self._path: Path = tsc_path()
        self._require_confinement = require_confinement
        self._all = [_Seat(slot) for slot in range(children)]
        self._seats = Seats(self._all)
        self._renewing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            await asyncio.gather(*(self._renew(seat) for seat in self._all))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def confinement(self) -> dict[str, str]:
        return next((seat.tsc.confinement for seat in self._all if seat.tsc is not None), {})

    async def close(self) -> None:
        for task in self._renewing:
            task.cancel()
        await asyncio.gather(*self._renewing, return_exceptions=True)
        for seat in self._all:
            if seat.tsc is not None:
                await seat.tsc.stop()

    async def check(
        self, source: str, toolset: Toolset, *, epoch: Epoch, tenant: str, output: bool = False
    ) -> TypeReport:
        """`output`: the schema of the output is wanted too.

        Limits: WALL_MAX_S, CPU_MAX_S, 1 GiB; beyond them `too_complex`. Errors: SandboxFault, EpochFault.
        """
        job = _Job(masked_source(source), toolset, epoch, output=output)
        seat = await self._seats.take(tenant, lambda seat: job.key in seat.projects)
        spent = _Spent(CPU_SLOW_S if job.key in seat.projects else CPU_SLOW_FIRST_S)
        try:
            return await self._checked(seat, job, spent)
        finally:
            if spent.slow:
                self._seats.was_slow(tenant)
            self._seats.leave(tenant, seat, usable=seat.alive)
            if not seat.alive:  # nobody waits for its successor who need not
                task = asyncio.create_task(self._replace(seat))
                self._renewing.add(task)
                task.add_done_callback(self._renewing.discard)

    async def _checked(self, seat: _Seat, job: _Job, spent: _Spent) -> TypeReport:
        try:
            async with self._ready(seat) as tsc, _watched(tsc, spent):
                return await self._ask(seat, tsc, job)
        except TscOverloaded:
            return TypeReport(too_complex=True)
        except ChildDied:
            if spent.reached:
                return TypeReport(too_complex=True)
        # It died by itself, perhaps of what others left in it: once more, in a fresh one, on the same clock.
        try:
            async with self._ready(seat) as tsc, _watched(tsc, spent):
                return await self._ask(seat, tsc, job)
        except (ChildDied, TscOverloaded):
            return TypeReport(too_complex=True)

    async def _replace(self, seat: _Seat) -> None:
        try:
            await self._renew(seat)
        except (SandboxFault, ChildDied, OSError):
            logger.exception("a type-checker could not be replaced; the next check tries again")
        self._seats.repaired(seat)

    @contextlib.asynccontextmanager
    async def _ready(self, seat: _Seat) -> AsyncIterator[Tsc]:
        """The seat's child; if it is dead afterwards, another is on its way when this returns."""
        if not seat.alive or seat.worn:
            await self._renew(seat)
        assert seat.tsc is not None
        try:
            yield seat.tsc
        finally:
            seat.checks += 1

    async def _renew(self, seat: _Seat) -> None:
        if seat.tsc is not None:
            await seat.tsc.stop()
        seat.projects.clear()
        seat.snapshot, seat.checks = None, 0
        tsc = await Tsc.start(self._path, slot=seat.slot, require_confinement=self._require_confinement)
        seat.tsc = tsc
        # The globals are read and bound once; a script's author should not wait for that.
        await self._ask(seat, tsc, _Job("export default async () => {};\n", NO_TOOLS, CURRENT))
        seat.checks = 1

    async def _ask(self, seat: _Seat, tsc: Tsc, job: _Job) -> TypeReport:
        folder = seat.projects.get(job.key)
        if folder is None:
            folder = f"{ROOT}/{len(seat.projects)}"
            tsc.files.update(_project(folder, job.toolset, epoch_files(job.epoch)))
            tsc.files[f"{folder}/main.ts"] = job.source
            changes: dict[str, Any] = {"openProjects": [f"{folder}/tsconfig.json"]}
        else:
            tsc.files[f"{folder}/main.ts"] = job.source
            changes = {"fileChanges": {"changed": [f"{folder}/main.ts"]}}
        answer = await tsc.call("updateSnapshot", changes)
        before, seat.snapshot = seat.snapshot, answer["snapshot"]
        seat.projects[job.key] = folder
        if before is not None:
            await tsc.call("release", {"snapshot": before})
        project = next(
            one["id"] for one in answer["projects"] if one["configFileName"] == f"{folder}/tsconfig.json"
        )
        where = {"snapshot": seat.snapshot, "project": project}
        script = {**where, "file": f"{folder}/main.ts"}
        found: list[Raw] = await tsc.call("getSyntacticDiagnostics", script) or []
        if found:  # what follows from a missing bracket helps nobody
            return TypeReport(found)
        found = await tsc.call("getSemanticDiagnostics", script) or []
        return TypeReport(found, await _types(tsc, where, folder, output=job.output))


async def _types(tsc: Tsc, where: dict[str, Any], folder: str, *, output: bool) -> MainTypes:
    try:
        return await main_types(
            tsc,
            where,
            entry=(f"{folder}/entry.ts", ENTRY.rindex("main")),
            script=f"{folder}/main.ts",
            output=output,
        )
    except TscRefused as error:
        # It accepts any input then. The compiler's own fault; the script is checked all the same.
        logger.warning("the types of a script's main are not known: %s", error)
        return MainTypes()


def masked_source(source: str) -> str:
    """The script, of the same length, without the comments that would switch the checker off or read files."""
    return _REFERENCES.sub(r"\1// ", _DIRECTIVES.sub("@ts_", source))


def _project(folder: str, toolset: Toolset, epoch: EpochFiles) -> dict[str, str]:
    shared = f"{ROOT}/e{epoch.epoch}"
    files = [f"{shared}/lib.d.ts", f"{shared}/rewind.d.ts", "tools.d.ts", "main.ts", "entry.ts"]
    return {
        f"{shared}/lib.d.ts": epoch.lib,
        f"{shared}/rewind.d.ts": epoch.rewind,
        f"{folder}/tsconfig.json": orjson.dumps({"compilerOptions": OPTIONS, "files": files}).decode(),
        f"{folder}/tools.d.ts": toolset.declarations,
        f"{folder}/entry.ts": ENTRY,
    }


@contextlib.asynccontextmanager
async def _watched(tsc: Tsc, spent: _Spent) -> AsyncIterator[None]:
    """Kill the child when what is done inside, with what was spent before, takes too long.

    One that is slow yields to the others; it cannot be made quick again, so it ends with its check.
    """
    loop = asyncio.get_running_loop()
    began_s, began_cpu_s = loop.time() - spent.wall_s, tsc.cpu_ns() / 1e9 - spent.cpu_s
    look: asyncio.TimerHandle

    def watch() -> None:
        nonlocal look
        spent.wall_s = loop.time() - began_s
        spent.cpu_s = max(spent.cpu_s, tsc.cpu_ns() / 1e9 - began_cpu_s)
        fair = spent.cpu_s >= CPU_FAIR_S or spent.wall_s >= WALL_STARVED_MAX_S
        if spent.cpu_s >= CPU_MAX_S or (spent.wall_s >= WALL_MAX_S and fair):
            spent.reached = True
            tsc.kill()
            return
        if spent.slow:
            tsc.yield_to_others()
        look = loop.call_later(WATCH_INTERVAL_S, watch)

    look = loop.call_later(WATCH_INTERVAL_S, watch)
    try:
        yield
    finally:
        look.cancel()
        spent.wall_s = loop.time() - began_s
        if tsc.yields:
            tsc.kill()
