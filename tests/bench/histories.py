"""Long journals: a run of 50,000 entries, and one that gets 1,000 signals. Both must be linear."""

import asyncio
import statistics
import time

from rewind._core import Call

from tests.bench import budgets, scripts
from tests.bench.driver import NAMESPACE, CallTimes
from tests.bench.guides import LATE_STEP, MEASURED_STEPS
from tests.bench.session import Phase, Session, latencies

FILLER = 24_800
"""Calls; with the measured ones just under the limit of a run's history."""
PAGE = 1_000
SENDERS = 16
SIGNALS = """\
import { waitForSignal } from "rewind";

export default async function main(input: { signals: number }) {
  let sum = 0;
  for (let i = 0; i < input.signals; i++) sum += (await waitForSignal<{ n: number }>("go")).n >= 0 ? 1 : 0;
  return sum;
}
"""


async def fifty_thousand(session: Session) -> None:
    """Steps at the beginning and at the end of the journal, its pages, and its replay."""
    filler = session.scaled(FILLER, 2_400)
    value = {"measured": MEASURED_STEPS, "filler": filler, "width": 100}
    with CallTimes(session.driver) as calls:
        run = await session.driver.run(scripts.LONG, value)
        early = calls.gaps(first=5, last=MEASURED_STEPS - 1)
        late = calls.gaps(first=LATE_STEP + 5, last=LATE_STEP + MEASURED_STEPS)
    runs, pages = session.driver.client.runs, list[float]()
    entries = int(run.raw["usage"]["entries"])
    for after in range(-1, entries - 1, PAGE):
        began = time.perf_counter()
        page = await runs._core.call(_page(run.id, after), {})
        pages.append(time.perf_counter() - began)
        if page.data["data"][0]["seq"] != after + 1:
            raise AssertionError(f"the page after {after} begins with {page.data['data'][0]['seq']}")
    began = time.perf_counter()
    replayed = await runs.replay(run.id)
    took_s = time.perf_counter() - began
    if not replayed["matches"]:
        raise AssertionError(f"the replay differs: {replayed['diverged_at']}")
    report, half = session.report, len(pages) // 2
    ratio = statistics.median(late) / statistics.median(early)
    report.add(f"gap between steps, entry {entries:,} : entry 10", ratio, "×", budgets.GAP_RATIO)
    report.add(
        f"page of 1,000 entries, last half : first half of {entries:,}",
        statistics.median(pages[half:]) / statistics.median(pages[:half]),
        "×",
        budgets.GAP_RATIO,
    )
    report.add(f"replay of {entries:,} entries over HTTP", entries / took_s, "entries/s")
    session.detail("fifty_thousand", entries=entries, early=latencies(early), late=latencies(late))


async def thousand_signals(session: Session) -> None:
    """Signals sent at once to one run: what each costs when there are many, and when there are few."""
    few, many = session.scaled(100, 50), session.scaled(1_000, 200)

    async def each_ms(count: int) -> float:
        run = await session.driver.start(SIGNALS, {"signals": count})
        turn = asyncio.Semaphore(SENDERS)

        async def send() -> None:
            async with turn:
                await session.driver.signal(run.id)

        began = time.perf_counter()
        await asyncio.gather(*(send() for _ in range(count)))
        ended = await session.driver.ended(run.id)
        if ended.output != count:
            raise AssertionError(f"{ended.output} of {count} signals arrived")
        return (time.perf_counter() - began) * 1_000 / count

    at_few = await each_ms(few)
    at_many = await each_ms(many)
    session.report.add(f"one of {many:,} signals to a run, sent and taken", at_many, "ms")
    session.report.add(
        f"a signal, {many:,} to a run : {few} to a run", at_many / at_few, "×", budgets.GAP_RATIO
    )


def _page(run: str, after: int) -> Call:
    query = {"namespace": NAMESPACE, "after": after, "limit": PAGE}
    return Call(method="GET", path=f"/v1/runs/{run}/journal", query=query)


PHASES = (
    Phase("a run of 50,000 entries", fifty_thousand, 150, 30),
    Phase("1,000 signals to one run", thousand_signals, 30, 10),
)
