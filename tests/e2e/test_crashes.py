"""serve and Postgres killed (-9) in the middle of runs, under the supervisor: every run ends as it would have.

CI kills each twice in every run, at entries chosen by a printed seed (REWIND_SEED repeats it); `make soak` after each
entry.
"""

import asyncio
import os
import random

import pytest

from tests.e2e.case_driver import Case, Player, World, check
from tests.e2e.stack import Database, eventually
from tests.fixtures.processes import DevProcess, StartDev

pytestmark = pytest.mark.e2e

CASES = (
    "04-paginate-orders",
    "05-retry-backoff-idempotent",
    "12-analyze-glob-report",
    "13-approve-refund",
    "14-async-generator-pages",
)

ENTRIES = 9
"""Every one of these scripts has more."""
KILLS = 2
SOAK = os.environ.get("REWIND_SOAK") == "1"


class Dev:
    """A `rewind dev` as the player sees it."""

    def __init__(self, process: DevProcess) -> None:
        self.process = process
        self.url = process.url
        self.api_key = process.api_key
        self.database = Database(process.database_url)

    def check_alive(self) -> None:
        """The supervisor replaces what dies."""

    def logs(self) -> str:
        return self.process.output()


async def kill_at(dev: Dev, world: World, seq: int, part: str) -> None:
    async def reached() -> bool:
        row = await dev.database.row("select next_seq, status from runs where run_id = $1", world.run)
        return bool(row["next_seq"] > seq or row["status"])

    await eventually(reached, what=f"entry {seq} of {world.case.name}", every_s=0.001)
    former = dev.process.kill(part)
    await asyncio.to_thread(dev.process.wait_restarted, part, former)


@pytest.mark.parametrize("part", ["serve", "postgres"])
@pytest.mark.timeout(3600 if SOAK else 600)
async def test_a_killed_part_loses_nothing(start_dev: StartDev, part: str) -> None:
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    rng = random.Random(seed)
    print(f"\nseed {seed}")
    dev = Dev(start_dev())
    cases = [Case.load(name) for name in CASES]
    try:
        async with Player(dev, cases) as player:
            for case in cases:
                world = await player.start(case)
                playing = asyncio.create_task(player.finish(world))
                for seq in range(ENTRIES) if SOAK else sorted(rng.sample(range(1, ENTRIES), KILLS)):
                    await kill_at(dev, world, seq, part)
                await playing
                entries = list(await player.client.runs.journal(world.run))
                check(world, await player.client.runs.get(world.run), entries)
    finally:
        await dev.database.close()
