"""The rows of DESIGN §14 that the peers' workloads do not measure."""

import secrets
import statistics
import time

from sandbox.journal.entries import EntryType
from tests.bench import budgets, scripts
from tests.bench.driver import CallTimes
from tests.bench.report import progress, quantile
from tests.bench.rig import until
from tests.bench.session import Phase, Session, latencies

MEASURED_STEPS = 60
LATE_STEP = 1_000_000
"""Number of the first step that the script LONG makes when its journal is long."""
TIMERS_PER_RUN = 500
FIRED_SQL = "select count(*), max(time) from entries where run_id = any($1::uuid[]) and type = $2"
PENDING_TIMERS_SQL = "select count(*) from pending where kind = 1"


async def first_call(session: Session) -> None:
    """From `runs.start` to the first call in the hands of the tool, of a known script and of new ones."""

    async def once(calls: CallTimes, source: str) -> float:
        began = time.perf_counter()
        run = await session.driver.start(source, {"steps": 1})
        took = await calls.reached(run.id, 0) - began
        await session.driver.ended(run.id)
        return took

    with CallTimes(session.driver) as calls:
        known = [await once(calls, scripts.STEPS) for _ in range(session.scaled(100, 20))]
        new = [
            await once(calls, f"// {secrets.token_hex(8)}\n{scripts.STEPS}")
            for _ in range(session.scaled(20, 5))
        ]
    report = session.report
    report.add(
        "runs.start → first call, known script, p50", quantile(known, 0.5), "ms", budgets.FIRST_CALL_KNOWN
    )
    report.add("runs.start → first call, new script, p50", quantile(new, 0.5), "ms", budgets.FIRST_CALL_NEW)
    session.detail("first_call", known=latencies(known), new=latencies(new))


async def signal_warm(session: Session) -> None:
    """From a signal's sending to the next call of a run that is in memory."""
    count = session.scaled(100, 20)
    took: list[float] = []
    with CallTimes(session.driver) as calls:
        run = await session.driver.start(scripts.STEPS_THEN_SIGNALS, {"steps": 0, "signals": count})
        for i in range(count):
            await session.driver.client.runs.get(run.id, wait=5_000, until="blocked")
            began = time.perf_counter()
            await session.driver.signal(run.id)
            took.append(await calls.reached(run.id, i) - began)
        await session.driver.ended(run.id)
    session.report.add("signal → run continues, warm, p50", quantile(took, 0.5), "ms", budgets.SIGNAL_WARM)
    session.detail("signal_warm", **latencies(took))


async def long_journal(session: Session) -> None:
    """Steps of one run at the journal's beginning, and again when it has 10,000 entries."""
    filler = session.scaled(4_900, 900)
    value = {"measured": MEASURED_STEPS, "filler": filler, "width": 100}
    with CallTimes(session.driver) as calls:
        await session.driver.run(scripts.LONG, value)
        early = calls.gaps(first=5, last=MEASURED_STEPS - 1)
        late = calls.gaps(first=LATE_STEP + 5, last=LATE_STEP + MEASURED_STEPS)
    entries = 2 * (filler + MEASURED_STEPS)
    ratio = statistics.median(late) / statistics.median(early)
    session.report.add(f"gap between steps, entry {entries:,} : entry 10", ratio, "×", budgets.GAP_RATIO)
    session.detail("long_journal", entries=entries, early=latencies(early), late=latencies(late))


async def timers(session: Session) -> None:
    """Timers of many runs that are due in the same moment: none early, all soon."""
    runs_wanted, lead_s = session.scaled(20, 4), session.scaled(12, 4)
    total = runs_wanted * TIMERS_PER_RUN
    database = session.rig.database
    at_ms = int((time.time() + lead_s) * 1000)
    value = {"timers": TIMERS_PER_RUN, "at": at_ms}
    runs = [(await session.driver.start(scripts.TIMERS, value)).id for _ in range(runs_wanted)]

    async def all_set() -> bool:
        return bool(await database.fetchval(PENDING_TIMERS_SQL) >= total)

    await until(all_set, f"setting {total:,} timers", within_s=lead_s)
    armed_s = time.time() - at_ms / 1000 + lead_s
    progress(f"      {total:,} timers are set")

    async def fire() -> tuple[int, float]:
        early = 0

        async def all_fired() -> bool:
            nonlocal early
            asked_ms = time.time() * 1000
            left = await database.fetchval(PENDING_TIMERS_SQL)
            if time.time() * 1000 < at_ms:
                early = total - left
            return asked_ms >= at_ms and left == 0

        await until(all_fired, "the firing of all timers", within_s=lead_s + 20)
        return early, time.time() * 1000 - at_ms

    (early, late_ms), usage = await session.measured(fire())
    fired, last_ms = await database.fetchrow(FIRED_SQL, runs, int(EntryType.TIMER_FIRED))
    if fired != total:
        raise AssertionError(f"{fired} of {total} timers fired")
    for run in runs:
        await session.driver.ended(run)
    ended_ms = time.time() * 1000 - at_ms
    report = session.report
    report.add(f"{total:,} timers due at once, the last fired after", late_ms, "ms", budgets.TIMERS_LATE)
    report.add("timers fired early", early, "", budgets.TIMERS_EARLY)
    session.detail(
        "timers",
        timers=total,
        armed_s=round(armed_s, 2),
        recorded_late_ms=last_ms - at_ms,
        all_runs_ended_ms=round(ended_ms),
        **usage.to_json(),
    )


PHASES = (
    Phase("runs.start to the first call", first_call, 15, 6),
    Phase("signal to a warm run", signal_warm, 8, 4),
    Phase("steps of a long journal", long_journal, 45, 15),
    Phase("timers due in the same second", timers, 40, 15),
)
