"""One simulation: a seed, and everything that follows from it.

Chaos for a while, then peace, in which every run must end. `python -m tests.simulation.simulation SEED` shows it.
"""

import asyncio
import contextlib
import logging
import sys
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from app.dispatcher import children
from sandbox.activation import forking, live_run
from sandbox.store.interface import RunStatus
from tests.simulation.actors import Isolates, serve_dispatcher, serve_scheduler, serve_worker
from tests.simulation.checks import Broken, require
from tests.simulation.crashes import Point, points, standing_at
from tests.simulation.customers import DRILL, Executor, Harness, patiently
from tests.simulation.history import journals
from tests.simulation.loop import Process
from tests.simulation.starting import Where
from tests.simulation.world import START_MS, World

PEACE_S = 900.0
"""How long runs may take to end when nothing goes wrong any more."""
OFTEN = {"worker": 1.0, "scheduler": 2.0, "dispatcher": 3.0, "executor": 6.0}
"""Some take few steps; they would hardly ever die in the middle of something."""
FORKS_MAX = 4
OUTAGE_S = 45.0
AIMED_KILLS = 0.75
"""Of those who stand at an await that is aimed at; the others are told to leave."""


@dataclass(frozen=True)
class Played:
    seed: int
    trace: str
    runs: Counter[str]
    """How the runs ended, by status."""
    counts: Counter[str]
    """What went wrong, and what happened, how often."""
    crashed_at: Counter[Point]
    pairs: Counter[tuple[str, str]]
    """(state, entry) that were seen."""
    virtual_s: float


@dataclass
class Simulation:
    seed: int
    processes: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.seed)
        self._random = self.world.random
        self._kinds: Counter[str] = Counter()
        self._down: Counter[str] = Counter()
        self._away = False
        self.world.loop.before_step = self._before_step

    def play(self) -> Played:
        """Errors: Broken, with the seed in its message."""
        world = self.world
        before = asyncio.events._get_running_loop()
        secret = Random(self.seed)
        try:
            with (
                world.clocks(),
                patch.object(children.secrets, "token_hex", lambda size: secret.randbytes(size).hex()),
                patch.object(forking, "CHUNK_ENTRIES", self._random.choice((1, 1, 3, 500))),
                patch.object(live_run, "CHUNK_BYTES", self._random.choice((200, 1024 * 1024))),
            ):
                world.loop.run_until_complete(world.server.spawn(self._play()))
            require(not world.loop.faults, f"nobody caught: {world.loop.faults[:3]}")
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}") from error
        finally:
            asyncio.events._set_running_loop(before)
            world.loop.bury()
            world.loop.close()
        ends = Counter(run.status.name.lower() for run in world.journals.runs.values())
        return Played(
            self.seed,
            world.trace,
            ends,
            world.counts,
            world.crashed_at,
            world.checks.pairs,
            world.loop.now_s,
        )

    async def _play(self) -> None:
        world = self.world
        for _ in range(self._random.choice((1, 2, 2, 3))):
            self._start("worker")
        for _ in range(self._random.choice((1, 1, 2))):
            self._start("scheduler")
            self._start("dispatcher")
            self._start("executor")
        harness = Harness(world, world.process("harness", mortal=False))
        for number in range(self._random.choice((1, 3, 5))):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 1.0, 5.0)))
            world.tick()
            await harness.start(world.starting.root(number))
        forks_max = self._random.choice((0, 2, FORKS_MAX))
        if world.favours == "orphans":
            await harness.annoy(self._random.choice((15.0, 30.0)), 0)
            await self._outage(harness)
            await harness.annoy(OUTAGE_S - 5.0, forks_max)
            for ended in [where for where, run in harness.runs.items() if run.status not in OPEN]:
                await harness.fork(ended)
        await harness.annoy(self._random.choice((5.0, 20.0, 60.0)), forks_max)
        await self._peace(harness)
        if self._random.random() < 0.3 or world.favours == "forks":  # once more, now that more has ended
            world.faults.on = True
            world.tick()
            for parent in [where for where in harness.runs if self._random.random() < 0.25][:FORKS_MAX]:
                await harness.fork(parent)
            await harness.annoy(10.0, world.starting.forks)
            await self._peace(harness)
        world.checks.all_ended()

    async def _outage(self, harness: Harness) -> None:
        """No dispatcher for longer than a call that was told to stop is waited for; meanwhile runs are cancelled."""
        self._away = True
        for process in self.processes:
            if process.name.startswith("dispatcher"):
                process.kill()
        self._away = False
        for where, run in list(harness.runs.items()):
            if run.status in OPEN and self._random.random() < 0.7:
                await harness.cancel(where, "user")

    async def _peace(self, harness: Harness) -> None:
        """Nothing goes wrong any more: everything that has begun comes to an end."""
        self.world.faults.on = False
        self.world.tick()
        begins = self.world.journals.time
        for process in self.processes:
            process.resume()
        for kind in list(self._down.elements()):
            self._come_back(kind)
        loop = self.world.loop
        gives_up = loop.time() + PEACE_S
        last_word = loop.time() + 60.0
        while active := [where for where, run in harness.runs.items() if run.status in OPEN]:
            for where in active:
                if harness.runs[where].status is RunStatus.QUARANTINED:
                    await self._release(harness, where)
                elif loop.time() > last_word:
                    await harness.cancel(where, "user")
            self.world.tick()
            self.world.checks.nobody_waits()
            stuck = [(where, harness.runs[where].pending, harness.runs[where].owner) for where in active]
            require(loop.time() < gives_up, f"runs do not end: {stuck[:1]}")
            await asyncio.sleep(2.0)
        self.world.tick()
        self.world.checks.books.peaces.append((begins, self.world.journals.time))

    async def _release(self, harness: Harness, where: Where) -> None:
        """What an operator does about a run whose child died twice; nothing but that and drills may put one there."""
        report = self.world.journals.quarantined[where[1]]
        known = "killed by the simulation" in str(report["message"]) or report["message"] == DRILL
        require(known, f"a run is quarantined: {where} {report}")
        await patiently(lambda: harness.line.release_quarantined(*where))

    # -- Processes

    def _start(self, kind: str) -> None:
        self._kinds[kind] += 1
        number = self._kinds[kind]
        world = self.world
        process = world.process(f"{kind}{number}")
        process.on_death.append(partial(self._restart, kind))
        self._draw_fate(process)
        self.processes.append(process)
        drain_at = self._random.choice((3.0, 30.0, 1e6, 1e6, 1e6, 1e6)) if world.faults.on else 1e9
        if world.favours == "drains" and world.faults.on:
            drain_at = self._random.uniform(0.5, 10.0)
        process.soon(drain_at, process.term.set)
        match kind:
            case "worker":
                work = serve_worker(world, process, Isolates(world), warm=self._random.choice((0, 1, 100)))
            case "scheduler":
                work = serve_scheduler(world, process)
            case "dispatcher":
                work = serve_dispatcher(world, process, number)
            case _:
                work = Executor(world, process, None).serve()
        process.spawn(self._until_drained(process, work))

    async def _until_drained(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        await work
        self.world.counts["drained"] += 1
        process.kill()

    def _restart(self, kind: str) -> None:
        """Soon; now and then only after longer than anything waits for anybody."""
        delay_s = self._random.choice((0.05, 0.05, 1.0, 1.0, 4.0, 4.0, OUTAGE_S))
        if self._away:
            delay_s = OUTAGE_S
        self._down[kind] += 1
        self.world.server.soon(delay_s if self.world.faults.on else 0.05, self._come_back, kind)

    def _come_back(self, kind: str) -> None:
        if self._down[kind]:  # else it is back already, with the peace
            self._down[kind] -= 1
            self._start(kind)

    def _draw_fate(self, process: Process) -> None:
        often = OFTEN[process.name.rstrip("0123456789")]
        process.dies_in = self.world.faults.dies_in(often)
        process.pauses_in = self.world.faults.pauses_in(often)

    def _before_step(self, process: Process, handle: asyncio.Handle) -> None:
        world = self.world
        if not world.faults.on:
            return
        if world.aims and any(at in world.aims and at not in world.crashed_at for at in standing_at(handle)):
            if process.term.is_set() or self._random.random() < AIMED_KILLS:
                world.counts["aimed crashes"] += 1
                self._kill(process, handle)
                return
            world.counts["aimed drains"] += 1
            world.note(process.name, "told to leave")
            process.term.set()
        process.dies_in -= 1
        process.pauses_in -= 1
        if process.dies_in == 0:
            self._kill(process, handle)
        elif process.pauses_in == 0 and process.frozen is None:
            world.counts["pauses"] += 1
            world.note(process.name, "paused")
            process.pause()
            world.server.soon(self._random.choice((0.5, 5.0, 12.0, 40.0)), self._resume, process)

    def _resume(self, process: Process) -> None:
        process.resume()
        self._draw_fate(process)

    def _kill(self, process: Process, handle: asyncio.Handle) -> None:
        world = self.world
        world.counts["crashes"] += 1
        world.crashed_at.update(point for point in standing_at(handle) if point in points())
        world.note(process.name, "killed")
        process.kill()


OPEN = {RunStatus.ACTIVE, RunStatus.QUARANTINED}


def play(seed: int) -> Played:
    return Simulation(seed).play()


def main() -> int:
    """Play one seed and show what happened."""
    simulation = Simulation(int(sys.argv[1]))
    simulation.world.log = []
    with contextlib.suppress(BrokenPipeError):
        try:
            played = simulation.play()
            print(f"seed {played.seed}: {dict(played.runs)}, {dict(played.counts)}")
        finally:
            world = simulation.world
            print("\n".join([*world.log, *journals(world.journals.runs, world.starting.scripts, START_MS)]))
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    raise SystemExit(main())
