"""The case scripts with half of their tools on MCP servers; and again while the dispatcher is killed."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from tests.e2e.case_driver import World, check
from tests.e2e.mcp_player import McpPlayer, plain_cases
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e
ALLOW = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}


async def checked(player: McpPlayer, world: World) -> None:
    entries = list(await player.client.runs.journal(world.run))
    check(world, await player.client.runs.get(world.run), entries)


@pytest.mark.timeout(600)
async def test_half_of_the_tools_by_mcp(database_url: str, s3_url: str, tmp_path: Path) -> None:
    cases = plain_cases()
    async with (
        Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack,
        McpPlayer(stack, cases) as player,
    ):
        for case in cases:
            await checked(player, await player.play(case))
        assert player.by_mcp > len(cases)
        assert player.repeated == 0


async def kill_dispatcher(stack: Stack) -> None:
    """kill -9; the leases of the dead one run out at once, without moving the scripts' time."""
    stack.serve.kill()
    await stack.database.rows(
        "update pending set lease_until = 0 where route = 1 and lease_until is not null returning n"
    )
    stack.start_serve()


@pytest.mark.timeout(900)
async def test_a_killed_dispatcher_changes_nothing_for_idempotent_tools(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\nseed {seed}")
    rng = random.Random(seed)
    cases = plain_cases()
    async with (
        Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack,
        McpPlayer(stack, cases, idempotent=True) as player,
    ):
        for case in cases:
            before = player.by_mcp
            wanted = before + rng.randrange(1, 4)
            world = await player.start(case)
            playing = asyncio.create_task(player.finish(world))

            async def so_many(wanted: int = wanted, playing: "asyncio.Task[None]" = playing) -> bool:
                return player.by_mcp >= wanted or playing.done()

            await eventually(so_many, what=f"call {wanted} by MCP", every_s=0.001)
            if not playing.done():
                playing.cancel()  # the player must not meet a process that it did not stop
                await asyncio.gather(playing, return_exceptions=True)
                await kill_dispatcher(stack)
                await stack.ready()
                await player.finish(world)
            else:
                await playing
            await checked(player, world)
        print(f"calls by MCP: {player.by_mcp}, repeated: {player.repeated}")
        assert player.repeated > 0, "no kill hit a call in the air"
