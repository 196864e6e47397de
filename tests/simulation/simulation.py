"""One simulation: a seed, and everything that follows from it.

Chaos for a while, then peace, in which every run must end. `python -m tests.simulation.simulation SEED` shows it.
"""

import asyncio
import contextlib
import logging
import sys
from dataclasses import dataclass, replace

from sandbox.activation.drafts import PinnedTool
from sandbox.activation.setup import pinned_tools
from sandbox.isolate.compiled import Compiled
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import Actor, Limits, RunStarted
from sandbox.journal.ids import Digest, NamespaceId, RunId, TimeMs
from sandbox.store.interface import RunFacts, RunStatus, StartRun
from tests.simulation.actors import (
    DRILL,
    EPOCH,
    ORGANIZATION,
    Executor,
    Harness,
    Isolates,
    patiently,
    serve_dispatcher,
    serve_scheduler,
    serve_worker,
)
from tests.simulation.checks import Broken, require
from tests.simulation.loop import Process
from tests.simulation.script import TOOLS
from tests.simulation.world import START_MS, World

PEACE_S = 900.0
"""How long runs may take to end when nothing goes wrong any more."""
OFTEN = {"worker": 1.0, "scheduler": 2.0, "dispatcher": 3.0, "executor": 6.0}
"""Some take few steps; they would hardly ever die in the middle of something."""
SCRIPT = Digest("sha256:" + "5" * 64)
PINNED = tuple(
    {"name": name, "kind": "mcp" if name.startswith("mcp") else "host", "idempotent": name.endswith("again")}
    | ({"approval": {"expires_ms": 15_000}} if name.endswith("gated") else {})
    for name in TOOLS
)


@dataclass(frozen=True)
class Played:
    seed: int
    trace: str
    runs: dict[str, int]
    """How the runs ended, by status."""
    steps: int
    crashes: int
    pauses: int
    virtual_s: float


class Simulation:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self._random = self.world.random
        self._tools: dict[str, PinnedTool] = pinned_tools(PINNED)
        self._scripts: dict[RunId, str] = {}
        self._kinds: dict[str, int] = {}
        self._restarting: set[str] = set()
        self.world.loop.before_step = self._before_step

    def play(self) -> Played:
        """Errors: Broken, with the seed in its message."""
        world = self.world
        before = asyncio.events._get_running_loop()
        try:
            world.loop.run_until_complete(world.server.spawn(self._play()))
            require(not world.loop.faults, f"nobody caught: {world.loop.faults[:3]}")
        except Broken as error:
            raise Broken(f"seed {self.seed}: {error}") from error
        finally:
            asyncio.events._set_running_loop(before)
            world.loop.bury()
            world.loop.close()
        ends: dict[str, int] = {}
        for run in world.journals.runs.values():
            ends[run.status.name.lower()] = ends.get(run.status.name.lower(), 0) + 1
        return Played(
            self.seed, world.trace, ends, world.checks.steps, world.crashes, world.pauses, world.loop.now_s
        )

    async def _play(self) -> None:
        world = self.world
        for _ in range(self._random.choice((1, 2, 2, 3))):
            self._start("worker")
        for _ in range(self._random.choice((1, 1, 2))):
            self._start("scheduler")
            self._start("dispatcher")
            self._start("executor")
        harness = Harness(world, Process(world.loop, "harness", mortal=False))
        runs = []
        for number in range(self._random.choice((1, 3, 5))):
            await asyncio.sleep(self._random.choice((0.0, 0.0, 1.0, 5.0)))
            runs.append(await self._start_run(harness, number))
        await harness.annoy(runs, self._random.choice((5.0, 20.0, 60.0)))
        world.faults.on = False
        for process in list(self._paused):
            process.resume()
        await self._peace(harness, runs)
        for where in runs:
            world.checks.ended(world.journals.runs[where], self._tools, self._scripts[where[1]])

    async def _peace(self, harness: Harness, runs: list[tuple[NamespaceId, RunId]]) -> None:
        loop = self.world.loop
        gives_up = loop.time() + PEACE_S
        last_word = loop.time() + 60.0
        while active := [where for where in runs if self.world.journals.runs[where].status in OPEN]:
            for where in active:
                if self.world.journals.runs[where].status is RunStatus.QUARANTINED:
                    await self._release(harness, where)
                elif loop.time() > last_word:
                    await harness.cancel(where, "user")
            stuck = [
                (w, self.world.journals.runs[w].pending, self.world.journals.runs[w].owner) for w in active
            ]
            require(loop.time() < gives_up, f"runs do not end: {stuck[:1]}")
            await asyncio.sleep(2.0)

    async def _release(self, harness: Harness, where: tuple[NamespaceId, RunId]) -> None:
        """What an operator does about a run whose child died twice; nothing but that and drills may put one there."""
        report = self.world.journals.quarantined[where[1]]
        known = "killed by the simulation" in str(report["message"]) or report["message"] == DRILL
        require(known, f"a run is quarantined: {report}")
        await patiently(lambda: harness.line.release_quarantined(*where))

    # -- Processes

    def _start(self, kind: str) -> None:
        number = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        world = self.world
        process = Process(world.loop, f"{kind}{number}")
        process.on_death.append(lambda: self._restart(kind))
        self._alive.append(process)
        if kind == "worker":
            warm = self._random.choice((0, 1, 100))
            drain_at = self._random.choice((3.0, 30.0, 1e6, 1e6)) if world.faults.on else 1e9
            process.spawn(self._until_drained(process, warm, drain_at))
        elif kind == "scheduler":
            process.spawn(serve_scheduler(world, process))
        elif kind == "dispatcher":
            process.spawn(serve_dispatcher(world, process, number))
        else:
            process.spawn(Executor(world, process, None).serve())

    async def _until_drained(self, process: Process, warm: int, drain_at: float) -> None:
        await serve_worker(self.world, process, Isolates(self.world), warm=warm, drain_at=drain_at)
        process.kill()

    def _restart(self, kind: str) -> None:
        self.world.server.soon(self._random.choice((0.05, 1.0, 4.0)), self._start, kind)

    @property
    def _paused(self) -> list[Process]:
        return [process for process in self._alive if process.frozen is not None]

    @property
    def _alive(self) -> list[Process]:
        return self.__dict__.setdefault("_processes", [])

    def _before_step(self, process: Process) -> None:
        often = OFTEN[process.name.rstrip("0123456789")]
        if self.world.faults.crashes(often):
            self.world.crashes += 1
            self.world.note(process.name, "killed")
            process.kill()
        elif process.frozen is None and self.world.faults.pauses(often):
            self.world.pauses += 1
            self.world.note(process.name, "paused")
            process.pause()
            self.world.server.soon(self._random.choice((0.5, 5.0, 12.0, 40.0)), process.resume)

    # -- Runs

    async def _start_run(self, harness: Harness, number: int) -> tuple[NamespaceId, RunId]:
        namespace = NamespaceId(f"n{number % 2}")
        run = RunId(f"run{number}")
        seed = f"{self.seed}/{number}"
        self._scripts[run] = seed
        journals = self.world.journals
        journals.facts[namespace, run] = RunFacts(
            namespace=namespace,
            namespace_name=namespace,
            organization=ORGANIZATION,
            run=run,
            epoch=EPOCH,
            script=SCRIPT,
            compiled=Compiled(seed, [], "main").to_json(),
            toolset="tools",
            tools=PINNED,
            labels={},
        )
        held_s = self._random.choice((0, 0, 0, 0, 6))
        ttl_ms = self._random.choice((8_000, 60_000, 86_400_000, 86_400_000))
        now = TimeMs(START_MS + int(self.world.loop.time() * 1_000) + held_s * 1_000)
        started = RunStarted(
            input=value_of(None),
            script=SCRIPT,
            toolset=None,
            seed="0" * 32,
            epoch=EPOCH,
            deadline=TimeMs(now + ttl_ms),
            labels={},
            limits=Limits(),
            started_by=Actor("key", "k"),
        )
        request = StartRun(
            namespace=namespace,
            organization=ORGANIZATION,
            run=run,
            body=encode_body(started),
            epoch=EPOCH,
            time=now,
            ttl_ms=ttl_ms,
            script=SCRIPT,
            toolset="tools",
            toolset_digest=SCRIPT,
            workflow=None,
            labels={},
            created_by=("key", "k"),
            idempotency_key=run,
            held=held_s > 0,
        )
        await patiently(lambda: harness.line.start_run(replace(request)))
        return namespace, run


OPEN = {RunStatus.ACTIVE, RunStatus.QUARANTINED}


def play(seed: int) -> Played:
    return Simulation(seed).play()


def main() -> int:
    """Play one seed and show what happened."""
    simulation = Simulation(int(sys.argv[1]))
    simulation.world.log = []
    with contextlib.suppress(BrokenPipeError):
        try:
            print(simulation.play())
        finally:
            print("\n".join(simulation.world.log[-400:]))
    return 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    raise SystemExit(main())
