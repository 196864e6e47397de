"""The scripts of tests/cases/scripts through the real child: warm, and rebuilt from scratch after every event."""

import json
from pathlib import Path

import pytest

from sandbox.isolate.api import ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.world import World, duration_ms, table

CASES = sorted((Path(__file__).parents[2] / "cases" / "scripts").glob("*/script.ts"))
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("evicted", [False, True], ids=["warm", "evicted"])
@pytest.mark.parametrize("script", CASES, ids=lambda path: path.parent.name)
async def test_case(pool: ChildPool, script: Path, *, evicted: bool) -> None:
    spec = json.loads((script.parent / "tools.json").read_text())
    expected = json.loads((script.parent / "expected.json").read_text())
    compiled = await pool.strip(script.read_text(), 1)
    assert isinstance(compiled, Compiled), compiled
    world = World(
        pool=pool,
        compiled=compiled,
        answer=table(spec),
        tools=tuple(ToolName(name, gated=False) for name in spec["tools"]),
        input=spec["input"],
        evicted=evicted,
        signals=[(duration_ms(s["at"]), s["name"], s["payload"]) for s in spec.get("signals", [])],
    )
    await world.run_to_end()
    if expected["status"] == "completed":
        assert world.output == expected["output"]
    else:
        assert world.error["name"] == expected["error"]["name"]
        assert expected["error"]["message"] in world.error["message"]
    assert world.calls == expected["calls"]
    assert [log[0] for log in world.logs] == [line.split(" ", 1)[0] for line in expected["logs"]]
    plain = [
        " ".join(part if isinstance(part, str) else json.dumps(part) for part in log) for log in world.logs
    ]
    assert [a for a, b in zip(plain, expected["logs"], strict=True) if "{" not in b and a != b] == []
    if evicted:
        assert world.replays > 0


async def test_every_case_is_here() -> None:
    assert len(CASES) == 52
