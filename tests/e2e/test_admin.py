"""`rewind admin` beside running processes: an organization that stands still and goes on, a worker that leaves."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rewind import ApiError, AsyncRewind

from app.verbs import OK, REFUSED
from tests.e2e.stack import Stack, eventually
from tests.fixtures.database import REPOSITORY

pytestmark = pytest.mark.e2e

WAITER = """import { waitForSignal } from "rewind";
export default async function main() { return [await waitForSignal("one"), await waitForSignal("two")]; }"""
SLEEPER = """import { sleep } from "rewind";
export default async function main() { await sleep("1h"); return "slept"; }"""


async def admin(stack: Stack, *arguments: str, code: int = OK) -> Any:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "rewind.cli", "admin", *arguments, "--json"],
        env={**stack._environ, "REWIND_OPERATOR": "ann"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    return json.loads(done.stdout) if code == OK else done.stderr


@pytest.mark.timeout(240)
async def test_an_organization_stands_still_and_goes_on(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme") as client,
    ):
        waiter, sleeper = await client.runs.start(script=WAITER), await client.runs.start(script=SLEEPER)
        for run in (waiter, sleeper):
            await client.runs.wait(run.id, until="blocked", timeout_s=30)
        await client.runs.signal(waiter.id, "one", 1)
        shown = await admin(stack, "organizations", "suspend", "tests", "--reason", "unpaid", "--yes")
        assert shown["active_runs"] == 2
        await eventually(lambda: _refused(client, "unpaid"), within_s=5, what="the refusal")
        await stack.database.advance(2 * 3_600_000)

        timer = await eventually(
            lambda: stack.database.row(
                "select owner, status, last_event > delivered as waiting from runs where run_id = $1 and last_event > 0",
                sleeper.id,
            ),
            what="the timer",
        )
        assert (timer["owner"], timer["status"], timer["waiting"]) == (None, 0, True), (
            "recorded, not delivered"
        )
        assert "already" in await admin(
            stack, "organizations", "suspend", "tests", "--reason", "x", "--yes", code=REFUSED
        )

        await admin(stack, "organizations", "resume", "tests")
        slept = await eventually(lambda: _ended(client, sleeper.id), within_s=30, what="the end")
        assert slept.output == "slept"
        await client.runs.signal(waiter.id, "two", 2)
        assert (await client.runs.wait(waiter.id, timeout_s=30)).output == [1, 2]


@pytest.mark.timeout(240)
async def test_a_worker_leaves_and_another_goes_on(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme") as client,
    ):
        waiter = await client.runs.start(script=WAITER)
        await client.runs.wait(waiter.id, until="blocked", timeout_s=30)
        (one,) = (await admin(stack, "workers", "list"))["data"]
        assert (one["pid"], one["runs"], one["status"]) == (stack.workers[0].pid, 1, "working")
        await admin(stack, "workers", "drain", one["id"])
        assert await asyncio.to_thread(stack.workers[0].popen.wait, 30) == 0
        assert (await admin(stack, "workers", "list"))["data"] == []
        stack.workers.clear()
        stack.start_worker()
        await client.runs.signal(waiter.id, "one", 1)
        await client.runs.signal(waiter.id, "two", 2)
        assert (await client.runs.wait(waiter.id, timeout_s=60)).output == [1, 2]


async def _refused(client: AsyncRewind, reason: str) -> bool:
    try:
        await client.runs.get("01890000-0000-7000-8000-000000000000")
    except ApiError as error:
        return reason in str(error) and error.code == "organization_suspended"
    return False


async def _ended(client: AsyncRewind, run: str) -> Any:
    try:
        found = await client.runs.get(run)
    except ApiError:  # for a second it may still be refused
        return None
    return found if found.status == "completed" else None
