"""The workloads W1 to W5 of the peers' comparison, on Rewind.

A step is a call of a host tool that returns its argument, served by the SDK's worker over HTTP.
"""

import asyncio
import time

from tests.bench import budgets, scripts
from tests.bench.driver import CallTimes
from tests.bench.report import progress, quantile
from tests.bench.rig import until
from tests.bench.session import Phase, Session, latencies

CONCURRENCY = 32
KILL_AT = 900
STEPS_OF_W3 = 1_000
SETTLE_POLL_S = 0.25
UNSETTLED_SQL = "select count(*) from runs where owner is not null or ready"
"""Runs that are in some worker's memory, or on their way there."""


async def warm_up(session: Session) -> None:
    await session.driver.warm_up(limit_s=min(8, session.left_s))


async def w2_empty_run(session: Session) -> None:
    """Start to result of a run without a step."""
    durations, usage = await session.measured(
        session.repeated(session.scaled(200, 50), lambda: session.driver.steps(0))
    )
    report = session.report
    report.add("W2 run without a step, p50", quantile(durations, 0.5), "ms", budgets.W2_P50)
    report.add("W2 run without a step, p99", quantile(durations, 0.99), "ms")
    report.add("W2 CPU of one run", usage.cpu_total_s * 1000 / len(durations), "ms")
    session.detail("w2", **latencies(durations), **usage.to_json(), per_run=usage.per_step(len(durations)))


async def w1_alone(session: Session) -> None:
    """Ten sequential steps, one run at a time."""
    with CallTimes(session.driver) as calls:
        durations, usage = await session.measured(
            session.repeated(session.scaled(200, 50), lambda: session.driver.steps(10))
        )
    cost = usage.per_step(10 * len(durations))
    report = session.report
    report.add("W1 ten steps, c=1, p50", quantile(durations, 0.5), "ms", budgets.W1_P50)
    report.add("W1 ten steps, c=1, p99", quantile(durations, 0.99), "ms")
    report.add("W1 CPU per step, c=1", cost["cpu_ms_per_step"], "ms", budgets.W1_CPU)
    report.add("step of a warm run, c=1, p50", quantile(calls.gaps(), 0.5), "ms", budgets.STEP_P50)
    report.add("step, CPU of all processes, c=1", cost["cpu_ms_per_step"], "ms", budgets.STEP_CPU)
    report.add("WAL per step, c=1", cost["wal_kib_per_step"], "KiB")
    report.add("writing commits per step, c=1", cost["commits_per_step"], "")
    report.add("fsyncs per step, c=1", cost["fsyncs_per_step"], "")
    session.detail(
        "w1", **latencies(durations), step=latencies(calls.gaps()), **usage.to_json(), per_step=cost
    )


async def w1_crowded(session: Session) -> None:
    """Ten sequential steps, 32 runs at a time for 20 s."""
    duration_s = session.scaled(20, 6)
    durations: list[float] = []

    async def loop(ends_at: float) -> None:
        while time.perf_counter() < ends_at:
            began = time.perf_counter()
            await session.driver.steps(10)
            durations.append(time.perf_counter() - began)

    async def crowd() -> None:
        ends_at = time.perf_counter() + duration_s
        async with asyncio.TaskGroup() as tasks:
            for _ in range(CONCURRENCY):
                tasks.create_task(loop(ends_at))

    with CallTimes(session.driver) as calls:
        _, usage = await session.measured(crowd())
    cost = usage.per_step(10 * len(durations))
    report = session.report
    report.add("W1 steps/s, c=32", cost["steps_per_s"], "/s", budgets.W1T_STEPS)
    report.add("W1 runs/s, c=32", cost["steps_per_s"] / 10, "/s")
    report.add("W1 ten steps, c=32, p50", quantile(durations, 0.5), "ms")
    report.add("W1 ten steps, c=32, p99", quantile(durations, 0.99), "ms")
    report.add("step, c=32, p50", quantile(calls.gaps(), 0.5), "ms")
    report.add("W1 CPU per step, c=32", cost["cpu_ms_per_step"], "ms", budgets.W1T_CPU)
    report.add("step, CPU of all processes, c=32", cost["cpu_ms_per_step"], "ms", budgets.STEP_CPU_32)
    report.add("writing commits per step, c=32", cost["commits_per_step"], "")
    report.add("fsyncs per step, c=32", cost["fsyncs_per_step"], "")
    session.detail(
        "w1t", **latencies(durations), step=latencies(calls.gaps()), **usage.to_json(), per_step=cost
    )


async def w5_parallel(session: Session) -> None:
    """A hundred parallel steps in one run."""
    durations, usage = await session.measured(
        session.repeated(session.scaled(10, 5), lambda: session.driver.fan(100))
    )
    cost = usage.per_step(100 * len(durations))
    session.report.add("W5 100 parallel steps, p50", quantile(durations, 0.5), "ms", budgets.W5_P50)
    session.report.add("W5 CPU per step", cost["cpu_ms_per_step"], "ms")
    session.detail("w5", **latencies(durations), **usage.to_json(), per_step=cost)


async def w3_sequence(session: Session) -> None:
    """A thousand sequential steps, then a thousand parallel ones for comparison."""
    began = time.perf_counter()
    _, sequential = await session.measured(session.driver.steps(STEPS_OF_W3))
    wall_s = time.perf_counter() - began
    _, parallel = await session.measured(session.driver.fan(STEPS_OF_W3))
    report = session.report
    report.add("W3 1,000 steps", wall_s, "s", budgets.W3_WALL)
    ratio = parallel.cpu_total_s / max(sequential.cpu_total_s, 0.01)
    report.add("1,000 parallel calls : 1,000 sequential, CPU", ratio, "×", budgets.PARALLEL_RATIO)
    session.detail(
        "w3",
        sequential=sequential.to_json() | sequential.per_step(STEPS_OF_W3),
        parallel=parallel.to_json() | parallel.per_step(STEPS_OF_W3),
    )


async def w3_worker_killed(session: Session) -> None:
    """The worker is killed at step 900: how long until the next new step."""
    with CallTimes(session.driver) as calls:
        run = await session.driver.start(scripts.STEPS, {"steps": KILL_AT + 20})
        await calls.reached(run.id, KILL_AT)
        killed_at = await session.rig.kill_worker()
        next_at = await calls.reached(run.id, KILL_AT + 1)
        await session.driver.ended(run.id)
    took_ms = (next_at - killed_at) * 1000
    session.report.add("W3 worker killed at 900 → next new step", took_ms, "ms", budgets.W3_RESTART)
    session.report.add("worker killed → next new step (1,800 entries)", took_ms, "ms", budgets.KILL_TO_STEP)
    session.detail("w3_kill", killed_to_next_step_ms=round(took_ms))


async def w4_waiting(session: Session) -> None:
    """Runs that wait for a signal: reaching the wait, memory, idle CPU, and signals to evicted runs."""
    wanted, signalled = session.scaled(2_000, 300), session.scaled(200, 50)
    long_runs = session.scaled(20, 10)
    await settled(session)
    pss_before, store_before = await session.rig.pss_kib(), await session.rig.store_bytes()
    began = time.perf_counter()
    waiting, usage = await session.measured(_start_waiting(session, wanted))
    reached_s = time.perf_counter() - began
    store_after = await session.rig.store_bytes()
    value = {"steps": 49, "signals": 1}
    with_history = [
        (await session.driver.start(scripts.STEPS_THEN_SIGNALS, value)).id for _ in range(long_runs)
    ]
    for run in with_history:
        await session.driver.client.runs.get(run, wait=20_000, until="blocked")
    await settled(session, by_restart=session.quick)
    pss_after = await session.rig.pss_kib()
    _, idle = await session.measured(asyncio.sleep(session.scaled(10, 3)))

    per_run = {role: (pss_after[role] - pss_before[role]) / len(waiting) for role in pss_after}
    store = {name: store_after[name] - store_before.get(name, 0) for name in store_after}
    memory_kib = max(0.0, sum(kib for role, kib in per_run.items() if role not in {"postgres", "sdk"}))
    store_kib = sum(store.values()) / 1024 / len(waiting)
    report = session.report
    report.add(f"W4 {len(waiting):,} runs waiting, reached after", reached_s, "s")
    report.add(
        "W4 memory per waiting run, processes",
        memory_kib,
        "KiB",
        budgets.W4_PROCESS,
        "serve, worker, sandbox",
    )
    report.add("W4 Postgres per waiting run", store_kib, "KiB", budgets.W4_STORE)
    report.add("waiting run in Postgres", store_kib, "KiB", budgets.WAITING_STORE, "values included")
    report.add("W4 idle CPU", idle.cpu_total_s / idle.wall_s * 1000, "ms/s")
    session.detail(
        "w4",
        runs=len(waiting),
        start=usage.to_json(),
        idle=idle.to_json(),
        pss_kib_per_run={role: round(kib, 2) for role, kib in per_run.items()},
        store_bytes_per_run={name: round(size / len(waiting)) for name, size in store.items() if size},
    )
    await _signal_evicted(session, waiting[:signalled], with_history)


async def _signal_evicted(session: Session, waiting: list[str], with_history: list[str]) -> None:
    runs = iter(waiting)

    async def signal_and_wait() -> None:
        run = next(runs)
        await session.driver.signal(run)
        await session.driver.ended(run)

    ended = await session.repeated(len(waiting), signal_and_wait)
    continued: list[float] = []
    with CallTimes(session.driver) as calls:
        for run in with_history:
            began = time.perf_counter()
            await session.driver.signal(run)
            continued.append(await calls.reached(run, 49) - began)
    report = session.report
    report.add("W4 signal to completion, evicted, p50", quantile(ended, 0.5), "ms", budgets.W4_SIGNAL)
    report.add("W4 signal to completion, evicted, p99", quantile(ended, 0.99), "ms")
    report.add(
        "signal → run continues, evicted, 100 entries, p50",
        quantile(continued, 0.5),
        "ms",
        budgets.SIGNAL_EVICTED,
    )
    session.detail("w4_signals", ended=latencies(ended), continued=latencies(continued))


async def _start_waiting(session: Session, count: int) -> list[str]:
    found: list[str] = []
    numbers = iter(range(count))
    ends_at = time.perf_counter() + session.scaled(60, 15)

    async def loop() -> None:
        for _ in numbers:
            found.append(await session.driver.start_waiting())
            if time.perf_counter() > ends_at:
                return

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(loop())
    return found


async def settled(session: Session, *, by_restart: bool = False) -> None:
    """Wait until no run is in a worker's memory; `by_restart` has the worker leave and come again for that."""
    if by_restart:
        await session.rig.restart_worker()

    async def nothing_held() -> bool:
        return not await session.rig.database.fetchval(UNSETTLED_SQL)

    if not await nothing_held():
        progress("      waiting for runs to be evicted")
        await until(nothing_held, "the eviction of waiting runs", within_s=45, every_s=SETTLE_POLL_S)


PHASES = (
    Phase("warm-up", warm_up, 8, 4),
    Phase("W2 run without a step", w2_empty_run, 10, 4),
    Phase("W1 ten steps, one at a time", w1_alone, 15, 6),
    Phase("W1 ten steps, 32 at a time", w1_crowded, 25, 8),
    Phase("W5 a hundred parallel steps", w5_parallel, 12, 5),
    Phase("W3 a thousand steps", w3_sequence, 30, 12),
    Phase("W3 worker killed at step 900", w3_worker_killed, 30, 15),
    Phase("W4 runs waiting for a signal", w4_waiting, 130, 35),
)
