"""Real worker processes lose and take over runs: paused and superseded, drained and replaced under load."""

import asyncio
import signal
from pathlib import Path

import pytest
from rewind import AsyncRewind

from tests.e2e.stack import Process, Stack, eventually

pytestmark = pytest.mark.e2e

SCRIPT = """import { waitForSignal } from "rewind";
export default async function main() {
  const heard: number[] = [];
  for (let i = 0; i < 6; i++) { heard.push(await waitForSignal<number>("go")); console.log(i); }
  return heard;
}"""
PER_STEP = ["signal_awaited", "signal_received", "log"]


async def told(stack: Stack, run: str, count: int) -> None:
    """Wait until the script has logged `count` signals."""

    async def logged() -> bool:
        row = await stack.database.row(
            "select count(*) as n from entries where run_id = $1 and type = 12", run
        )
        return bool(row["n"] >= count)

    await eventually(logged, what=f"step {count} ({stack.logs()[-2_000:]})")


async def registered(stack: Stack, worker: Process) -> None:
    async def known() -> bool:
        row = await stack.database.row("select count(*) as n from workers where pid = $1", worker.pid)
        return bool(row["n"] == 1)

    await eventually(known, what="the worker's registration")


async def ends_right(client: AsyncRewind, run: str) -> None:
    ended = await client.runs.wait(run, timeout_s=60)
    assert (ended.status, ended.output) == ("completed", list(range(6)))
    types = [entry["type"] for entry in await client.runs.journal(run)]
    assert types[0] == "run_started"
    assert types[-1] == "complete_run"
    assert [types.count(name) for name in PER_STEP] == [6, 6, 6]


@pytest.mark.timeout(240)
async def test_a_paused_worker_is_superseded_and_its_late_words_are_refused(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path, workers=2) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):
        run = (await client.runs.start(script=SCRIPT)).id
        await client.runs.signal(run, "go", 0, id="s0")
        await told(stack, run, 1)
        owner = await stack.owner_of(run)
        assert owner is not None
        owner.popen.send_signal(signal.SIGSTOP)
        try:
            await client.runs.signal(run, "go", 1, id="s1")  # its hint goes to the paused one
            # Its lock is held; not heard of for longer than any worker may be silent.
            await stack.database.rows("update workers set heartbeat_at = 0 where pid = $1", owner.pid)
            await told(stack, run, 2)
            assert await stack.owner_of(run) is not owner
        finally:
            owner.popen.send_signal(signal.SIGCONT)
        for n in range(2, 6):
            await client.runs.signal(run, "go", n, id=f"s{n}")
            await told(stack, run, n + 1)
        await ends_right(client, run)

        await registered(stack, owner)
        stack.check_alive()


@pytest.mark.timeout(300)
async def test_workers_replaced_under_load_lose_and_repeat_nothing(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path, workers=2) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):
        runs = [(await client.runs.start(script=SCRIPT)).id for _ in range(12)]

        async def drive(run: str) -> None:
            for n in range(6):
                await client.runs.signal(run, "go", n, id=f"s{n}")
                await told(stack, run, n + 1)

        driving = asyncio.gather(*(drive(run) for run in runs))
        for _ in range(3):  # old and new overlap; then the old one drains within its time
            old = stack.workers[0]
            await registered(stack, old)
            stack.start_worker()
            stack.workers.remove(old)
            assert await asyncio.to_thread(old.stop, 15) == 0
        await driving
        for run in runs:
            await ends_right(client, run)
