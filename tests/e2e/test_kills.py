"""The case scripts while the worker that owns the run is killed (-9) after each committed entry in turn.

CI kills at a sample of the entries, chosen by a printed seed; `make soak` at every one.
"""

import asyncio
import os
import random
import time
from pathlib import Path

import pytest

from tests.e2e.case_driver import Case, Player, World, case_names, check
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

CI_SECONDS = 240
"""How long CI goes on killing; what is left of the list is for `make soak`."""
SOAK = os.environ.get("REWIND_SOAK") == "1"


async def kill_after(stack: Stack, world: World, seq: int) -> bool:
    """kill -9 the owner of the run as soon as entry `seq` is committed; False when the run had ended by then."""

    async def committed() -> bool:
        row = await stack.database.row("select next_seq, status from runs where run_id = $1", world.run)
        return bool(row["next_seq"] > seq or row["status"])

    async def owned_or_ended() -> object:
        row = await stack.database.row("select status from runs where run_id = $1", world.run)
        return "ended" if row["status"] else await stack.owner_of(world.run)

    await eventually(committed, what=f"entry {seq} of {world.case.name}", every_s=0.0005)
    owner = await eventually(owned_or_ended, what="an owner", every_s=0.0005)
    if isinstance(owner, str):
        return False
    await stack.kill_worker(owner)
    return True


async def play_killed(player: Player, stack: Stack, case: Case, seq: int) -> bool:
    """Play a case with a kill after `seq`; what was recorded before the kill is still there, unchanged."""
    world = await player.start(case)
    playing = asyncio.create_task(player.finish(world))
    try:
        killed = await kill_after(stack, world, seq)
        before = await player.stack.database.entries(world.run)
        await playing
    finally:
        playing.cancel()
    assert (await player.stack.database.entries(world.run))[: len(before)] == before, case.name
    journal = list(await player.client.runs.journal(world.run))
    check(world, await player.client.runs.get(world.run), journal)
    return killed


async def lengths(player: Player) -> dict[str, int]:
    """How many entries each case has when nothing is killed."""
    found = {}
    for case in player.cases:
        world = await player.play(case)
        found[case.name] = len(await player.stack.database.entries(world.run))
    return found


@pytest.mark.timeout(3600 if SOAK else 900)
async def test_a_worker_killed_after_each_entry_changes_nothing(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\nseed {seed}")
    cases = [Case.load(name) for name in case_names()]
    async with Stack(database_url, s3_url, tmp_path, workers=2) as stack, Player(stack, cases) as player:
        sizes = await lengths(player)
        every = [(case, seq) for case in cases for seq in range(sizes[case.name])]
        random.Random(seed).shuffle(every)
        give_up = time.monotonic() + (3_000 if SOAK else CI_SECONDS)
        kills = runs = 0
        for case, seq in every:
            if time.monotonic() > give_up:
                break
            runs += 1
            kills += await play_killed(player, stack, case, seq)
        print(f"kills: {kills} in {runs} of {len(every)} runs, seed {seed}")
        assert kills > 0
        assert not SOAK or runs == len(every), "the soak did not get through"
