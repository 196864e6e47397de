"""A tenant whose runs use up all that they may, and the neighbour beside it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from sandbox.activation.live_run import CHAIN_MAX
from sandbox.isolate.api import Delivery, RunSetup
from sandbox.isolate.pool import ChildPool, IsolateInChild
from sandbox.journal.entries import Limits
from sandbox.journal.ids import Epoch, RunId
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.worker.ownership import NAMESPACE_BUSY_MAX
from tests.fixtures.turns import turn, until
from tests.sandbox.worker.conftest import Bench

LOOP = "export default async function main() { for (;;); }"
QUICK = "export default async function main() { return 1; }"
FLOODED = """import { waitForSignal } from "rewind";
export default async function main(signals: number) {
  let sum = 0;
  for (let n = 0; n < signals; n++) sum += await waitForSignal<number>("s");
  return sum;
}"""
CHAINS = 4
CROWD = 2_000


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


async def claimed(bench: Bench) -> int:
    """How many runs have had an owner."""
    async with bench.edge.pool.acquire() as connection:
        count: int = await connection.fetchval("select count(*) from runs where owner_epoch > 0")
    return count


async def test_a_burst_of_endless_loops_does_not_hold_up_a_neighbour(bench: Bench) -> None:
    """There are more of them than the worker takes, and one sandbox process for all."""
    limits = Limits(cpu_ms_per_event=50)
    loops = [await bench.start(LOOP, limits=limits) for _ in range(NAMESPACE_BUSY_MAX + 6)]
    neighbour = await bench.beside()
    await bench.worker()
    while await claimed(bench) < NAMESPACE_BUSY_MAX:
        await turn()
    run = await neighbour.start(QUICK)
    assert (await neighbour.until(run, ended)).status is RunStatus.COMPLETED
    records = await asyncio.gather(*(bench.record(loop) for loop in loops))
    before = sum(ended(record) for record in records)
    assert before < len(loops) // 2, f"{before} of {len(loops)} loops went first"
    for loop in loops:
        assert (await bench.until(loop, ended)).status is RunStatus.ABORTED


async def crowd_of(bench: Bench, count: int) -> None:
    script = await bench.compile(QUICK)
    await asyncio.gather(*(bench.start(QUICK, script=script) for _ in range(count)))


async def crowd_ended(bench: Bench) -> int:
    async with bench.edge.pool.acquire() as connection:
        count: int = await connection.fetchval(
            "select count(*) from runs where namespace_id = $1 and status <> 0", bench.namespace
        )
    return count


@pytest.mark.timeout(300)
async def test_two_thousand_runs_do_not_hold_up_the_one_of_another_namespace(bench: Bench) -> None:
    """One that was there when the worker came, and one that comes while it is busy with the crowd."""
    await crowd_of(bench, CROWD)
    neighbour = await bench.beside()
    early = await neighbour.start(QUICK)
    await bench.worker()
    assert (await neighbour.until(early, ended)).status is RunStatus.COMPLETED
    before = await crowd_ended(bench)
    assert before <= NAMESPACE_BUSY_MAX, f"{before} of {CROWD} went first"
    late = await neighbour.start(QUICK)
    assert (await neighbour.until(late, ended)).status is RunStatus.COMPLETED
    meanwhile = await crowd_ended(bench) - before
    assert meanwhile <= NAMESPACE_BUSY_MAX, f"{meanwhile} more went first"


@dataclass
class Ordered:
    """The real pool, noting which run's events were delivered when. The first run of all begins when the other is ready."""

    pool: ChildPool
    first: RunId
    delivered: list[tuple[str, int]] = field(default_factory=list)
    ready: bool = False
    begun: bool = False

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return self.pool.epochs

    async def open(self, setup: RunSetup) -> "_Noting":
        return _Noting(self, await self.pool.open(setup), RunId(setup.run))


@dataclass
class _Noting:
    pool: Ordered
    isolate: IsolateInChild
    run: RunId

    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        turns = self.isolate._child.turns
        if self.run == self.pool.first:
            await until(lambda: self.pool.ready, within_s=60)
            self.pool.begun = True
        else:
            self.pool.ready = True
            await until(lambda: self.pool.begun and turns.taken, within_s=60)
        delivery = await self.isolate.deliver(events, cpu_factor=cpu_factor)
        self.pool.delivered.append((self.run, len(events)))
        return delivery

    async def close(self) -> None:
        await self.isolate.close()


@pytest.mark.parametrize("neighbours", [True, False], ids=["of another namespace", "of the same"])
async def test_a_flood_of_events_is_cut_and_the_other_run_has_its_turn(
    bench: Bench, *, neighbours: bool
) -> None:
    """One sandbox process; all of the flood is recorded before anybody looks at it."""
    count = CHAINS * CHAIN_MAX
    flooded = await bench.start(FLOODED, count)
    assert [await bench.signal(flooded, "s", 1, f"s{n}") for n in range(count)]
    beside = await bench.beside() if neighbours else bench
    other = await beside.start(QUICK)
    pool = Ordered(bench.pool.pool, flooded)
    bench.pool = pool  # type: ignore[assignment]
    await bench.worker()
    assert (await bench.until(flooded, ended)).status is RunStatus.COMPLETED
    assert (await beside.until(other, ended)).status is RunStatus.COMPLETED
    chain = (flooded, CHAIN_MAX)
    assert pool.delivered == [chain, (other, 1), *[chain] * (CHAINS - 1), (flooded, 1)]
