"""A tenant whose runs use up all that they may, and the neighbour beside it."""

import asyncio

from sandbox.journal.entries import Limits
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.worker.ownership import NAMESPACE_BUSY_MAX
from tests.fixtures.turns import turn
from tests.sandbox.worker.conftest import Bench

LOOP = "export default async function main() { for (;;); }"
QUICK = "export default async function main() { return 1; }"


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
