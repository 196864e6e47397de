"""Several epochs on one worker, each in processes of its own; runs of an epoch that it lacks are left alone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import orjson

from app.health import Health
from sandbox.epochs.registry import served_epochs
from sandbox.isolate.pool import ChildPool
from sandbox.journal.ids import Epoch, RunId
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.store.postgres.health import lacking_epochs, read_deployment
from tests.fixtures.second_epoch import folder_of_two_epochs
from tests.sandbox.worker.conftest import Bench, CountingPool

SECOND, UNKNOWN = Epoch(2), Epoch(9)
SCRIPT = """
import { g } from "rewind:tools";
export default async function main() {
  const before = Math.max(1, 2);
  await g.echo({ before });
  return [before, Math.max(3, 4), typeof (globalThis as any).EPOCH];
}
"""


def called(record: RunRecord) -> bool:
    return record.calls == 1


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


async def output(bench: Bench, run: RunId) -> object:
    last = (await bench.edge.read_entries(bench.namespace, run))[-1]
    return orjson.loads(last.body)["output"]["value"]


async def test_two_epochs_are_served_side_by_side(bench: Bench, tmp_path: Path) -> None:
    folder = folder_of_two_epochs(tmp_path)
    assert served_epochs(folder) == (1, 2)
    async with ChildPool(children=1, folder=folder) as pool:
        bench.pool = CountingPool(pool)
        assert len({child.pid for child in pool.children}) == 2, "a process serves one epoch"
        await bench.worker(warm_runs=0)
        runs = [await bench.start(SCRIPT, epoch=epoch) for epoch in (Epoch(1), SECOND, Epoch(1), SECOND)]
        for run in runs:
            await bench.until(run, called)
            await bench.complete(run, 1, None)
        for run in runs:
            assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
        bench.stop.set()
        await bench.tasks.pop()
    first, second = [2, 4, "undefined"], [1002, 1004, "string"]
    assert [await output(bench, run) for run in runs] == [first, second, first, second]


def beside(bench: Bench, pool: ChildPool) -> Bench:
    """The same database with another build's worker, which drains by itself."""
    return replace(bench, pool=CountingPool(pool), stop=asyncio.Event(), tasks=[])


async def drain(build: Bench) -> None:
    build.stop.set()
    await asyncio.gather(*build.tasks)


async def test_old_and_new_workers_overlap_and_no_old_one_touches_a_run_of_the_new_epoch(
    bench: Bench, tmp_path: Path
) -> None:
    """A deploy, its roll-back, and the deploy again: whoever drains hands over to who is there and serves the epoch."""
    async with ChildPool(children=1, folder=folder_of_two_epochs(tmp_path)) as pool:
        old, new, again = bench, beside(bench, pool), beside(bench, pool)
        await old.worker()
        runs = [await bench.start(SCRIPT)]
        await bench.until(runs[0], called)
        runs += [await bench.start(SCRIPT, epoch=epoch) for epoch in (SECOND, Epoch(1))]
        await bench.until(runs[2], called)  # claimed by one that looked at the run before it as well
        assert await owner_epoch(bench, runs[1]) == 0
        await new.worker()
        await bench.until(runs[1], called)
        await drain(old)
        rolled_back = replace(bench, stop=asyncio.Event(), tasks=[])
        await bench.complete(runs[0], 1, None)
        assert (await bench.until(runs[0], ended)).status is RunStatus.COMPLETED
        assert runs[0] in new.pool.opened, "the old one handed it over"
        await rolled_back.worker()
        await drain(new)
        for run in (runs[1], runs[2]):
            await bench.complete(run, 1, None)
        assert (await bench.until(runs[2], ended)).status is RunStatus.COMPLETED
        assert (await bench.record(runs[1])).status is RunStatus.ACTIVE
        await again.worker()
        assert (await bench.until(runs[1], ended)).status is RunStatus.COMPLETED
        assert runs[1] in again.pool.opened
        await drain(rolled_back)
        await drain(again)
    assert runs[1] not in bench.pool.opened
    first, second = [2, 4, "undefined"], [1002, 1004, "string"]
    assert [await output(bench, run) for run in runs] == [first, second, first]


async def owner_epoch(bench: Bench, run: RunId) -> int:
    """How often it was claimed."""
    async with bench.edge.pool.acquire() as connection:
        count: int = await connection.fetchval("select owner_epoch from runs where run_id = $1", run)
    return count


async def test_a_run_of_an_epoch_that_is_not_served_is_left_alone_and_shown(bench: Bench) -> None:
    lost = await bench.start(SCRIPT, epoch=UNKNOWN)
    await bench.worker()
    run = await bench.start(SCRIPT)
    await bench.until(run, called)
    await bench.complete(run, 1, None)
    assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
    record = await bench.record(lost)
    assert (record.status, record.delivered, record.next_seq) == (RunStatus.ACTIVE, -1, 1)
    assert lost not in bench.pool.opened
    assert UNKNOWN in (await read_deployment(bench.url)).live_epochs
    assert await lacking_epochs(bench.url, served_epochs()) == [UNKNOWN]
    problems = await Health(bench.edge.pool, Epoch(1)).problems()
    assert problems == ["runs of epoch 9 are not over, and this build does not have it"]
