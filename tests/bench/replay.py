"""Cold replay in the running system: signals to runs that no worker has in memory, short and long ones.

The difference between a long and a short journal is the time of replaying what the long one has more; loading,
claiming and the step after the signal cancel out.
"""

import asyncio
import statistics
import time

from tests.bench import budgets, scripts
from tests.bench.driver import CallTimes
from tests.bench.report import Budget
from tests.bench.rig import until
from tests.bench.session import Phase, Session
from tests.bench.workloads import settled

SHORT_CALLS, LONG_CALLS, WIDTH = 500, 5_000, 100
SHORT_ENTRIES_MS = Budget(120.0, "DESIGN §14")


async def cold_replay(session: Session) -> None:
    """Record journals, have the worker leave, and send each run a signal."""
    long_calls = session.scaled(LONG_CALLS, LONG_CALLS // 2)
    short_runs = await _record(session, session.scaled(8, 4), SHORT_CALLS)
    long_runs = await _record(session, session.scaled(3, 1), long_calls)
    await settled(session, by_restart=True)
    await session.driver.warm_up(limit_s=3, rounds=3)
    short = [await _signal_and_continue(session, run) for run in short_runs]
    long = [await _signal_and_continue(session, run) for run in long_runs]
    replayed_s = statistics.median(long) - statistics.median(short)
    awaits_per_s = (long_calls - SHORT_CALLS) / max(replayed_s, 1e-6)
    short_ms = statistics.median(short) * 1000
    report = session.report
    report.add(
        "cold replay, recorded awaits per second",
        awaits_per_s,
        "/s",
        budgets.REPLAY,
        "load and claim included",
    )
    report.add("signal → run continues, evicted, 1,000 entries, p50", short_ms, "ms", SHORT_ENTRIES_MS)
    session.detail(
        "replay", short_ms=[round(s * 1000, 1) for s in short], long_ms=[round(s * 1000, 1) for s in long]
    )


async def _record(session: Session, count: int, calls: int) -> list[str]:
    async def one() -> str:
        value = {"calls": calls, "width": WIDTH}
        run = await session.driver.start(scripts.RECORDED_THEN_SIGNAL, value)

        async def waits() -> bool:
            found = await session.driver.client.runs.get(run.id, wait=30_000, until="blocked")
            return [item["kind"] for item in found.waiting_for] == ["signal"]

        await until(waits, "the wait of a recorded run", within_s=40)
        return run.id

    first = [await one()]
    return first + list(await asyncio.gather(*(one() for _ in range(count - 1))))


async def _signal_and_continue(session: Session, run: str) -> float:
    with CallTimes(session.driver) as calls:
        began = time.perf_counter()
        await session.driver.signal(run)
        took = await calls.reached(run, 1) - began
    await session.driver.ended(run)
    return took


PHASES = (Phase("cold replay", cold_replay, 45, 15),)
