"""`GET /v1/usage` over real processes: what is charged is the sum of what the runs say, children, kills and failures in it."""

from pathlib import Path

import pytest

from tests.e2e.stack import eventually
from tests.e2e.test_workflows import deployed

pytestmark = pytest.mark.e2e

TOLERANCE = 0.02
BURN = """
export default async function main(input: { fails: boolean }) {
  for (let i = 0, x = 0; i < 6_000_000; i++) x += i;
  if (input.fails) throw new Error("on purpose");
  return 1;
}
"""
PARENT = """
import { waitForSignal } from "rewind";
import { burn } from "rewind:workflows";

export default async function main() {
  await burn({ fails: false });
  try { await burn({ fails: true }); } catch {}
  await waitForSignal("go");
  for (let i = 0, x = 0; i < 6_000_000; i++) x += i;
  return 1;
}
"""


@pytest.mark.timeout(240)
async def test_usage_is_the_sum_of_the_runs(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with deployed(database_url, s3_url, tmp_path, burn=BURN) as (stack, sdk):
        run = await sdk.runs.start(script=PARENT, toolset="t")
        await sdk.runs.wait(run.id, until="blocked", timeout_s=60)

        async def waits() -> bool:
            found = await sdk.runs.get(run.id)
            return any(one["kind"] == "signal" for one in found.raw["waiting_for"])

        await eventually(waits, what="the wait for the signal")
        await stack.kill_worker(stack.workers[0])
        await sdk.runs.signal(run.id, "go")
        assert (await sdk.runs.wait(run.id, timeout_s=60)).status == "completed"
        runs = [found async for found in sdk.runs.list()]
        assert sorted(found.status for found in runs) == ["completed", "completed", "failed"]
        told_ms = sum(found.raw["usage"]["cpu_ms"] for found in runs)
        days = await sdk.usage.get()
        charged_ms = sum(day.cpu_ms for day in days)
        assert told_ms > 100, "there is something to compare"
        # Both are whole ms, rounded down: of each run, and of each day.
        assert abs(charged_ms - told_ms) <= TOLERANCE * told_ms + len(runs)
        assert sum(day.runs for day in days) == len(runs)
