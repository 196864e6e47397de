"""The case scripts forked unchanged after their end, on the real processes, also while workers are killed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.case_driver import Case, Player, World, case_names
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

KILLS = 4
COMPARED = (
    "type",
    "call",
    "tool",
    "args",
    "result",
    "error",
    "timer",
    "why",
    "delay",
    "wait",
    "name",
    "output",
)


def course(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a run did, without who did it."""
    return [{name: entry[name] for name in COMPARED if name in entry} for entry in entries]


async def check_fork(player: Player, world: World, fork: str) -> None:
    """It ended as its parent did, everything of it is reused, and no tool heard of it."""
    client = player.client
    parent, run = await client.runs.get(world.run), await client.runs.get(fork)
    assert (run.status, run.output) == (parent.status, parent.output), world.case.name
    before, after = await client.runs.journal(world.run), await client.runs.journal(fork)
    assert sorted(map(str, course(before))) == sorted(map(str, course(after))), world.case.name
    events = [
        entry for entry in after if entry["type"] in {"tool_call_completed", "timer_fired", "signal_received"}
    ]
    assert all("reused" in entry for entry in events), world.case.name
    assert fork not in player.worlds
    assert run.fork is not None
    assert run.fork["diverged_at"] is None, world.case.name
    assert run.fork["dropped"] == [], world.case.name
    assert sum(run.fork["reused"].values()) == len(events)


async def test_case_scripts_forked_unchanged_send_nothing_whatever_is_killed(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    cases = [Case.load(name) for name in case_names()]
    async with Stack(database_url, s3_url, tmp_path, workers=2) as stack, Player(stack, cases) as player:
        worlds = [await player.play(case) for case in cases]
        forks = [await player.client.runs.fork(world.run, wait="30s") for world in worlds]
        for world, fork in zip(worlds, forks, strict=True):
            assert fork.ended, world.case.name
            await check_fork(player, world, fork.id)

        # A fork of each fork, while one worker after the other is killed.
        asked = [asyncio.create_task(player.client.runs.fork(fork.id)) for fork in forks]
        for _ in range(KILLS):
            await eventually(lambda: busy(stack), what="a fork at work", every_s=0.001)
            await stack.kill_worker(stack.workers[0])
        again = await asyncio.gather(*asked)
        for world, fork in zip(worlds, again, strict=True):
            ended = await player.client.runs.wait(fork.id, timeout_s=60)
            assert ended.ended, world.case.name
            await check_fork(player, world, fork.id)


async def busy(stack: Stack) -> bool:
    """A worker answers a question or owns a run; or everything is over already."""
    row = await stack.database.row(
        "select (select count(*) from runs where owner is not null)"
        " + (select count(*) from sandbox_requests where worker_id is not null) as busy,"
        " (select count(*) from runs where status = 0) as active"
    )
    return bool(row["busy"]) or not row["active"]
