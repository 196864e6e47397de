"""Generated scripts give the same live, and rebuilt from every prefix of their history: commands, outputs, logs.

Each runs warm, one event after another; then with its isolate dropped after every event, where a new one replays
all before it at once. REWIND_SEED chooses other scripts, REWIND_SCRIPTS how many.
"""

import hashlib
import os
from collections import Counter
from typing import Any

import pytest

from sandbox.isolate.api import ToolName
from sandbox.isolate.compiled import Compiled, Import
from sandbox.isolate.pool import ChildPool
from tests.sandbox.epochs.grammar import IMPORTS, Grammar
from tests.sandbox.isolate.world import Outcome, World

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIRST = int(os.environ.get("REWIND_SEED", "1"))
SCRIPTS = int(os.environ.get("REWIND_SCRIPTS", "300"))
GROUPS = 8
"""Tests that share the scripts, so that they can share the processors."""

TOOLS = (ToolName("probe.echo", gated=False), ToolName("probe.fail", gated=False))
PARAMS = [
    Import(module="rewind:tools", name="probe", local="probe", line=1, column=1),
    *(Import(module="rewind", name=name, local=name, line=1, column=1) for name in IMPORTS),
]


def number(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


def options(seed: int) -> dict[str, Any]:
    """The world around a script: what its calls answer and when, which signals come, whether it is cancelled."""

    def answer(call: int, tool: str, args: Any) -> Outcome:
        after = number(seed, call) % 30
        if tool == "probe.fail" or number(seed, call, "fails") % 12 == 0:
            error = {"message": args.get("message", "out of luck"), "retryable": call % 2 == 0}
            return Outcome(error=error, after_ms=after)
        return Outcome(result=args, after_ms=after)

    return {
        "answer": answer,
        "signals": [(number(seed, n) % 200, "go", {"n": n}) for n in range(3)],
        "cancel_at": number(seed) % 300 if seed % 7 == 0 else None,
        "limits": {"log_bytes": 4_000} if seed % 11 == 0 else {},
    }


async def executed(pool: ChildPool, seed: int, *, evicted: bool) -> World:
    compiled = Compiled(js=Grammar(seed).script(), params=PARAMS, main="main")
    world = World(pool=pool, compiled=compiled, tools=TOOLS, evicted=evicted, **options(seed))
    return await world.run_to_end()


@pytest.mark.parametrize("group", range(GROUPS))
async def test_live_evicted_and_replayed_are_equal(pool: ChildPool, group: int) -> None:
    ends: Counter[str] = Counter()
    events = 0
    for seed in range(FIRST + group, FIRST + SCRIPTS, GROUPS):
        try:
            live = await executed(pool, seed, evicted=False)
            again = await executed(pool, seed, evicted=True)
            assert again.entries == live.entries
            assert again.stage == live.stage
        except BaseException:
            print(f"REWIND_SEED={seed} REWIND_SCRIPTS=1\n{Grammar(seed).script()}")
            raise
        ends[live.commands[-1]["type"]] += 1
        events += again.replays
    assert ends["complete_run"] > sum(ends.values()) / 3, ends
    assert events > 3 * sum(ends.values()), "most scripts wait several times"
