"""A run that kills its sandbox process, and one whose replay exceeds what it once survived: tried once more, alone."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.isolate.api import Delivery, RunSetup
from sandbox.isolate.pool import ChildPool, IsolateInChild
from sandbox.journal.entries import END_TYPES, Limits
from sandbox.journal.ids import Epoch, RunId
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.store.sealing import entry_place
from tests.fixtures.turns import turn, until
from tests.sandbox.worker.conftest import Bench

SCRIPT = """
import { g } from "rewind:tools";
export default async function main() {
  let n = 0;
  for (; n < 3_000_000; n++);
  return await g.echo({ n });
}
"""


@dataclass
class Deadly:
    """The real pool, but for some runs the process that holds them is killed during a delivery."""

    pool: ChildPool
    victims: dict[RunId, int] = field(default_factory=dict)
    """How often more."""
    early: bool = False
    """Killed, and gone, before the run is given anything."""
    opened: list[tuple[str, bool, int]] = field(default_factory=list)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return self.pool.epochs

    async def open(self, setup: RunSetup) -> "IsolateInChild | _Killing":
        isolate = await self.pool.open(setup)
        self.opened.append((setup.run, setup.alone, isolate._child.pid))
        if self.victims.get(RunId(setup.run), 0) > 0:
            self.victims[RunId(setup.run)] -= 1
            return _Killing(isolate, self.early)
        return isolate


@dataclass
class _Killing:
    """The process dies while this run, and no other, is inside.

    Killed before, it would be found dead and replaced, which blames nobody; running on, it might have answered.
    """

    isolate: IsolateInChild
    early: bool

    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        child = self.isolate._child
        if self.early:
            os.kill(child.pid, signal.SIGKILL)
            await until(lambda: child.dead)
            return await self.isolate.deliver(events, cpu_factor=cpu_factor)
        while child.turns.taken:
            await turn()
        os.kill(child.pid, signal.SIGSTOP)
        killing = asyncio.create_task(self._kill_when_inside(events))
        try:
            return await self.isolate.deliver(events, cpu_factor=cpu_factor)
        finally:
            killing.cancel()

    async def _kill_when_inside(self, events: Sequence[bytes]) -> None:
        child = self.isolate._child
        while child._flight is None or child._flight.events is not events:
            await turn()
        os.kill(child.pid, signal.SIGKILL)

    async def close(self) -> None:
        await self.isolate.close()


def stopped(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


def called(record: RunRecord) -> bool:
    return record.calls == 1


async def report_of(bench: Bench, run: RunId) -> dict[str, object]:
    report: dict[str, object] = json.loads(await bench.edge.quarantine_report(bench.namespace, run) or b"")
    return report


async def slow_down(bench: Bench, run: RunId) -> None:
    """As if this machine were a thousand times slower than the one that recorded the run: its limits shrink."""
    sealer, place = (await bench.edge.keys.of(bench.namespace)).of(run), entry_place(1)
    async with bench.edge.pool.acquire() as connection, connection.transaction():
        body = await connection.fetchval("select body from entries where run_id = $1 and seq = 0", run)
        was, now = b'"cpu_ms_per_event":4000', b'"cpu_ms_per_event":1'
        other = sealer.seal(sealer.open(body, place).replace(was, now), place)
        await connection.execute("set local role none")
        await connection.execute("update entries set body = $2 where run_id = $1 and seq = 0", run, other)


def deadly(bench: Bench, victims: dict[RunId, int]) -> Deadly:
    made = Deadly(bench.pool.pool, victims)
    bench.pool = made  # type: ignore[assignment]
    return made


async def test_a_run_whose_process_dies_once_goes_on_alone_in_a_fresh_one(bench: Bench) -> None:
    run = await bench.start(SCRIPT)
    pool = deadly(bench, {run: 1})
    await bench.worker()
    await bench.until(run, called)
    await bench.complete(run, 1, "done")
    assert (await bench.until(run, stopped)).status is RunStatus.COMPLETED
    first, second = pool.opened[:2]
    assert (first[1], second[1]) == (False, True)
    assert first[2] != second[2]
    assert second[2] not in {child.pid for child in pool.pool.children}, "it was not alone"


async def test_a_process_found_dead_before_it_was_given_anything_is_replaced_and_blames_nobody(
    bench: Bench,
) -> None:
    run = await bench.start(SCRIPT)
    pool = deadly(bench, {run: 3})
    pool.early = True
    await bench.worker()
    await bench.until(run, called)
    await bench.complete(run, 1, "done")
    assert (await bench.until(run, stopped)).status is RunStatus.COMPLETED
    assert [alone for _, alone, _ in pool.opened] == [False] * 4


async def test_a_run_that_kills_every_process_is_quarantined_and_its_neighbour_is_not(bench: Bench) -> None:
    poisoned = await bench.start(SCRIPT)
    neighbour = await bench.start(SCRIPT)
    pool = deadly(bench, {poisoned: 1_000})
    await bench.worker()
    await bench.worker()
    assert (await bench.until(poisoned, stopped)).status is RunStatus.QUARANTINED
    assert (await report_of(bench, poisoned))["code"] == "engine_crash"
    alone = [alone for run, alone, _ in pool.opened if run == poisoned]
    assert alone == [False, True]
    await bench.until(neighbour, called)
    await bench.complete(neighbour, 1, "done")
    assert (await bench.until(neighbour, stopped)).status is RunStatus.COMPLETED


async def test_an_event_that_was_survived_is_never_an_abort_on_replay(bench: Bench) -> None:
    run = await bench.start(SCRIPT, limits=Limits(cpu_ms_per_event=4_000))
    pool = deadly(bench, {})
    await bench.worker(warm_runs=0)
    await bench.until(run, called)
    async with bench.edge.pool.acquire() as connection:
        while await connection.fetchval("select owner is not null from runs where run_id = $1", run):
            pass
    await slow_down(bench, run)
    await bench.complete(run, 1, "done")
    assert (await bench.until(run, stopped)).status is RunStatus.QUARANTINED
    assert [alone for _, alone, _ in pool.opened] == [False, False, True]
    assert "was survived before" in str((await report_of(bench, run))["message"])
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert not {entry.type for entry in entries} & END_TYPES
