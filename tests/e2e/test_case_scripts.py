"""The case scripts through the real processes: warm, evicted after every activation, and killed."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.case_driver import Case, Player, World, case_names, check
from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

UNCOMPARED = {"time", "fire_at", "seed", "deadline", "begun_at", "started_by", "actor"}
"""Times, the seed, and who called (each pass has an organization of its own). Seqs and causes must be equal: the player
lets one thing happen at a time, so no two events are pending together."""


async def journal(player: Player, world: World) -> list[dict[str, Any]]:
    return list(await player.client.runs.journal(world.run))


async def play_all(player: Player) -> dict[str, list[dict[str, Any]]]:
    journals = {}
    for case in player.cases:
        world = await player.play(case)
        entries = await journal(player, world)
        check(world, await player.client.runs.get(world.run), entries)
        journals[case.name] = entries
    return journals


def comparable(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in UNCOMPARED} for entry in entries]


def without_delays(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key != "delay"} for entry in entries]


async def test_evicted_runs_equal_warm_ones(database_url: str, s3_url: str, tmp_path: Path) -> None:
    cases = [Case.load(name) for name in case_names()]
    (tmp_path / "warm").mkdir()
    (tmp_path / "cold").mkdir()
    async with Stack(database_url, s3_url, tmp_path / "warm") as stack, Player(stack, cases) as player:
        warm = await play_all(player)
    async with (
        Stack(database_url, s3_url, tmp_path / "cold", environ={"REWIND_WARM_RUNS": "0"}) as stack,
        Player(stack, cases) as player,
    ):
        cold = await play_all(player)
    for case in cases:
        one, other = comparable(warm[case.name]), comparable(cold[case.name])
        if "Math.random" in case.script:  # its delays derive from the seed
            one, other = without_delays(one), without_delays(other)
        assert one == other, case.name
