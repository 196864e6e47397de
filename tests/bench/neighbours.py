"""What one tenant's burst costs another: a single run beside 10,000 that somebody else starts."""

import asyncio
import contextlib
import statistics
import time

import httpx2

from app.dev import new_organization
from tests.bench import budgets
from tests.bench.report import progress
from tests.bench.session import Phase, Session, latencies

SCRIPT = "export default async function main() { return 1; }"
BURST, QUICK_BURST = 10_000, 1_000
BATCH = 100
BATCHES_AT_ONCE = 4
SAMPLES, QUICK_SAMPLES = 20, 5
LEFT_SQL = (
    "select count(*) from runs r join namespaces n on n.id = r.namespace_id "
    "where n.organization_id = $1 and r.status = 0"
)


async def beside_a_burst(session: Session) -> None:
    """Start to result of a single run, alone and while another organization starts thousands."""
    burst, samples = session.scaled(BURST, QUICK_BURST), session.scaled(SAMPLES, QUICK_SAMPLES)
    database_url = session.rig.dev.services()["database_url"]
    organization, loud_key = await new_organization(database_url, "loud")

    async def single() -> float:
        began = time.perf_counter()
        await session.driver.run(SCRIPT)
        return time.perf_counter() - began

    await single()  # the script is known from here on
    alone = [await single() for _ in range(samples)]
    async with httpx2.AsyncClient(
        base_url=session.rig.dev.url,
        headers={"authorization": f"Bearer {loud_key}"},
        timeout=120,
        trust_env=False,
    ) as loud:
        bursting = asyncio.create_task(_burst(loud, burst))
        beside: list[float] = []
        try:
            while len(beside) < samples and session.left_s > 0:
                beside.append(await single())
                left = await session.rig.database.fetchval(LEFT_SQL, organization)
                if bursting.done() and not left:
                    break
        finally:
            if not bursting.done():
                progress("      the samples are taken; the burst is cut short")
            bursting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                started = await bursting
                session.detail("beside_a_burst", started=started)
    delay_ms = (statistics.median(beside) - statistics.median(alone)) * 1000
    session.report.add(
        f"a run beside {burst:,} of another tenant, delay, median of {len(beside)}",
        delay_ms,
        "ms",
        budgets.BESIDE_A_BURST,
    )
    session.detail("beside_a_burst", burst=burst, alone=latencies(alone), beside=latencies(beside))


async def _burst(loud: httpx2.AsyncClient, count: int) -> int:
    """Start so many runs in batches; how many were started."""
    numbers = iter(range(0, count, BATCH))
    started = 0

    async def loop() -> None:
        nonlocal started
        for _ in numbers:
            items = [{"script": SCRIPT}] * BATCH
            answer = await loud.post("/v1/runs/batch?namespace=loud", json={"items": items})
            answer.raise_for_status()
            results = answer.json()["results"]
            refused = [item["problem"] for item in results if not item["ok"]]
            if refused:
                raise AssertionError(f"{len(refused)} of a batch were refused: {refused[0]}")
            started += len(results)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(BATCHES_AT_ONCE):
            tasks.create_task(loop())
    return started


PHASES = (Phase("a run beside another tenant's burst", beside_a_burst, 60, 15),)
