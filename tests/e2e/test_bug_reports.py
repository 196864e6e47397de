"""Public bug reports that need real processes: O1 with a killed worker, O4 while workers are replaced.

CI plays a sample of O4 (60 runs), `make soak` all 200.
"""

import asyncio
import os
from pathlib import Path

import pytest
from rewind import AsyncRewind

from tests.e2e.stack import Stack, eventually
from tests.e2e.test_ownership import registered

pytestmark = pytest.mark.e2e

RUNS = 200 if os.environ.get("REWIND_SOAK") == "1" else 60
WAVE = 20
SLEEPS = 6
JOINED = """import { sleep, waitForSignal } from "rewind";
export default async function main() {
  const all = Promise.all(["a", "b", "c"].map((name) => waitForSignal<number>(name)));
  const won = await Promise.race([all, sleep("35m").then(() => "late" as const)]);
  console.log("went on");
  return won;
}"""
SLEEPER = """import { sleep } from "rewind";
export default async function main(input: { first: number; sleeps: number }) {
  const start = Date.now();
  let asked = 0;
  for (let k = input.first; k < input.first + input.sleeps; k++) { asked += k * 47; await sleep(k * 47); }
  return { asked, slept: Date.now() - start };
}"""


@pytest.mark.timeout(240)
async def test_o01_signals_joined_and_raced_with_a_sleep_while_the_worker_is_killed(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):
        run = (await client.runs.start(script=JOINED)).id

        async def delivered() -> bool:
            row = await stack.database.row(
                "select delivered = last_event and next_seq >= 5 as all from runs where run_id = $1", run
            )
            return bool(row["all"])

        await eventually(delivered, what="the first activation")

        for number, name in enumerate(("a", "b"), start=1):
            await client.runs.signal(run, name, number, id=name)
        await eventually(delivered, what="the delivery of both signals")
        owner = await eventually(lambda: stack.owner_of(run), what="an owner")
        before = await stack.database.entries(run)
        await stack.kill_worker(owner)
        await stack.database.advance(34 * 60_000)
        await client.runs.signal(run, "c", 3, id="c")
        ended = await client.runs.wait(run, timeout_s=60)
        assert (ended.status, ended.output) == ("completed", [1, 2, 3])
        assert (await stack.database.entries(run))[: len(before)] == before
        types = [entry["type"] for entry in await client.runs.journal(run)]
        assert types == [
            "run_started",
            *["signal_awaited"] * 3,
            "start_timer",
            *["signal_received"] * 3,
            "log",
            "complete_run",
        ]
        await stack.database.advance(3_600_000)  # the loser of the race
        assert len(await stack.database.entries(run)) == len(types)


@pytest.mark.timeout(900)
async def test_o04_computed_sleeps_all_resume_while_workers_are_replaced(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path, workers=2) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):

        async def active() -> int:
            row = await stack.database.row("select count(*) as n from runs where status = 0")
            return int(row["n"])

        runs: list[str] = []
        replaced = 0
        while len(runs) < RUNS or await active():
            if len(runs) < RUNS:  # a wave of them, so that workers are replaced under every one
                given = [
                    {"first": 1 + n * 7 % 60, "sleeps": SLEEPS} for n in range(len(runs), len(runs) + WAVE)
                ]
                started = (client.runs.start(script=SLEEPER, input=one) for one in given)
                runs += [run.id for run in await asyncio.gather(*started)]
            victim = stack.workers[0]
            if replaced % 2:
                await stack.kill_worker(victim)
            else:
                stack.start_worker()
                stack.workers.remove(victim)
                assert await asyncio.to_thread(victim.stop, 15) == 0
            replaced += 1
            await registered(stack, stack.workers[-1])
        late = []
        for run in runs:
            ended = await client.runs.get(run)
            assert ended.status == "completed"
            assert ended.output["slept"] >= ended.output["asked"]
            late.append(ended.output["slept"] - ended.output["asked"])
            entries = list(await client.runs.journal(run))
            assert len(entries) == 2 + 2 * SLEEPS
        print(
            f"\n{RUNS} runs of {SLEEPS} sleeps, {replaced} workers replaced, at most {max(late)} ms late in all"
        )
