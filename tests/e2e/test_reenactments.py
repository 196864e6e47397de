"""A run of the real product, then all that its journal is good for: cassette, test, replay, what-if, verify."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import rewind

from tests.e2e.case_driver import Case, Player, check
from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e
CASE = "13-approve-refund"


async def command(stack: Stack, *arguments: str) -> tuple[int, str]:
    """The command `rewind` in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "rewind",
        *arguments,
        env={**os.environ, "REWIND_URL": stack.url, "REWIND_API_KEY": stack.api_key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode() + err.decode()


async def test_a_run_is_tried_replayed_and_verified(database_url: str, s3_url: str, tmp_path: Path) -> None:
    case = Case.load(CASE)
    async with Stack(database_url, s3_url, tmp_path) as stack, Player(stack, [case]) as player:
        world = await player.play(case)
        client: Any = player.client
        run = await client.runs.get(world.run)
        check(world, run, list(await client.runs.journal(run.id)))

        cassette = await client.runs.journal(run.id, as_="cassette")
        report = await client.scripts.test(
            case.script, toolset=case.toolset, input=cassette["input"], cassette=cassette
        )
        assert (report["status"], report["output"]) == (run.status, run.output)
        assert [[call["tool"], call["args"]] for call in report["calls"]] == case.expected["calls"]
        assert (report["missing"], report["unused"]) == ([], [])

        replayed = await client.runs.replay(run.id)
        assert (replayed["matches"], replayed["output"]) == (True, run.output)
        first = replayed["calls"][0]
        what_if = await client.runs.replay(run.id, overrides={first["call"]: {"error": {"message": "down"}}})
        assert what_if["matches"] is False
        with pytest.raises(rewind.BadRequest, match=r"overrides\.999"):
            await client.runs.replay(run.id, overrides={999: {"result": 1}})
        with pytest.raises(rewind.ApiError) as refused:
            await client.scripts.test("enum A { B }\nexport default function main() {}")
        assert refused.value.code == "script_refused"

        scope = ("--namespace", "cases")
        assert await command(stack, "replay", run.id, *scope) == (
            0,
            f"matches: {len(case.expected['calls'])} calls\n{json.dumps(run.output, ensure_ascii=False)}\n",
        )
        assert await command(stack, "verify", run.id, *scope) == (
            0,
            "chain ok\nvalues ok, root ok, replay matches\n",
        )
        code, text = await command(stack, "cassette", run.id, *scope)
        assert (code, json.loads(text)) == (0, cassette)
        (tmp_path / "cassette.json").write_text(text)
        (tmp_path / "script.ts").write_text(case.script)
        tried = ("test", str(tmp_path / "script.ts"), "--cassette", str(tmp_path / "cassette.json"), "--json")
        code, text = await command(stack, *tried)
        assert (code, json.loads(text)["output"]) == (0, run.output)
        (tmp_path / "other.ts").write_text("export default function main() { return 1; }")
        code, text = await command(stack, "replay", run.id, "--script", str(tmp_path / "other.ts"), *scope)
        assert (code, text[:17]) == (1, "diverged at entry")
