"""What a customer is charged for is the sandbox's own measurement: within 2 %, whatever happens to its runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from sandbox.isolate.api import Delivery, IsolateHandle, LimitExceeded, RunSetup
from sandbox.isolate.pool import ChildPool
from sandbox.journal.entries import Limits
from sandbox.journal.ids import RunId
from sandbox.store.interface import RunRecord, RunStatus
from tests.sandbox.worker.conftest import Bench, CountingPool

TOLERANCE = 0.02
BURN = """
import { waitForSignal } from "rewind";
export default async function main(input: { rounds: number; fails: boolean }) {
  for (let round = 0; round < input.rounds; round++) {
    for (let i = 0, x = 0; i < 1_500_000; i++) x += i;
    await waitForSignal("again");
  }
  if (input.fails) throw new Error("on purpose");
  return "done";
}
"""
LOOP = "export default async function main() { for (;;); }"


@dataclass
class MeteringPool(CountingPool):
    """The real pool, adding up what each live delivery used; what is replayed is not charged."""

    measured_us: dict[str, int] = field(default_factory=dict)
    replayed_us: int = 0

    async def open(self, setup: RunSetup) -> IsolateHandle:
        return _Metered(await self.pool.open(setup), self, setup.run)


@dataclass
class _Metered:
    handle: IsolateHandle
    pool: MeteringPool
    run: str

    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        try:
            delivery = await self.handle.deliver(events, cpu_factor=cpu_factor)
        except LimitExceeded as error:
            self._add(error.cpu_us, cpu_factor)
            raise
        self._add(delivery.cpu_us, cpu_factor)
        return delivery

    def _add(self, cpu_us: int, cpu_factor: int) -> None:
        if cpu_factor == 1:
            self.pool.measured_us[self.run] = self.pool.measured_us.get(self.run, 0) + cpu_us
        else:
            self.pool.replayed_us += cpu_us

    async def close(self) -> None:
        await self.handle.close()


def metered(bench: Bench) -> MeteringPool:
    pool = MeteringPool(bench.pool.pool)
    bench.pool = pool
    return pool


def waiting(record: RunRecord) -> bool:
    return record.pending_count > 0 and record.delivered == record.last_event


async def charged_us(bench: Bench) -> int:
    async with bench.edge.pool.acquire() as connection:
        return int(
            await connection.fetchval(
                "select (select coalesce(sum(cpu_us), 0) from usage_days where namespace_id = $1) + "
                "(select coalesce(sum(cpu_us), 0) from usage_deltas where namespace_id = $1)",
                bench.namespace,
            )
        )


async def rounds(
    bench: Bench, run: RunId, count: int, status: RunStatus, pool: ChildPool | None = None
) -> None:
    """Wake the run so often; with `pool`, its processes are killed before each time."""
    for number in range(count):
        await bench.until(run, waiting)
        for child in pool.children if pool is not None else ():
            child.kill()
        await bench.signal(run, "again", number, f"{number}")
    record = await bench.until(run, lambda record: record.status is not RunStatus.ACTIVE)
    assert record.status is status


async def test_a_mix_of_runs_is_charged_what_the_sandbox_measured(bench: Bench) -> None:
    pool = metered(bench)
    await bench.worker(warm_runs=1)  # of two runs that take turns, one is evicted each time
    one = await bench.start(BURN, {"rounds": 3, "fails": False})
    two = await bench.start(BURN, {"rounds": 3, "fails": True})
    for number in range(3):
        for run in (one, two):
            await bench.until(run, waiting)
            await bench.signal(run, "again", number, f"{number}")
    for run, status in ((one, RunStatus.COMPLETED), (two, RunStatus.FAILED)):
        await bench.until(run, lambda record: record.status is not RunStatus.ACTIVE)
        assert (await bench.record(run)).status is status
    killed = await bench.start(BURN, {"rounds": 3, "fails": False})
    await rounds(bench, killed, 3, RunStatus.COMPLETED, pool.pool)
    endless = await bench.start(LOOP, limits=Limits(cpu_ms_per_event=100))
    await bench.until(endless, lambda record: record.status is RunStatus.ABORTED)
    fork = await bench.fork(one, BURN.replace('"done"', '"forked"'))
    await bench.until(fork, lambda record: record.status is not RunStatus.ACTIVE)
    runs = (one, two, killed, endless, fork)
    charged, measured = await charged_us(bench), sum(pool.measured_us.values())
    # A fork pays for what it computes again of its parent: that is a prefix, not a replay of its own journal.
    prefix = (await bench.record(fork)).cpu_us - pool.measured_us.get(fork, 0)
    assert pool.replayed_us > 0, "something was evicted or killed, and replayed"
    assert measured > 200_000, "there is something to compare"
    assert abs(charged - prefix - measured) <= TOLERANCE * measured, (charged, prefix, measured)
    assert charged == sum([(await bench.record(run)).cpu_us for run in runs])


async def test_what_is_measured_is_the_clock_of_the_process(bench: Bench) -> None:
    pool = metered(bench)
    await bench.worker()
    run = await bench.start(BURN.replace("1_500_000", "6_000_000"), {"rounds": 6, "fails": False})
    (child,) = pool.pool.children
    process = psutil.Process(child.pid)
    await bench.until(run, waiting)
    before, measured_before = process.cpu_times(), pool.measured_us[run]
    await rounds(bench, run, 6, RunStatus.COMPLETED)
    after = process.cpu_times()
    used_us = (after.user + after.system - before.user - before.system) * 1_000_000
    measured = pool.measured_us[run] - measured_before
    # The process's clock counts in hundredths of a second, and reads and writes its messages too.
    assert abs(used_us - measured) <= TOLERANCE * used_us + 20_000, (used_us, measured)
    assert abs(await charged_us(bench) - pool.measured_us[run]) <= TOLERANCE * pool.measured_us[run]
