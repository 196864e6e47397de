"""Record the corpus of an unreleased epoch anew: `python -m tests.corpus.record`. A released epoch's never changes."""

import asyncio
import json
from pathlib import Path
from typing import Any

from sandbox.activation.reenacted import Play
from sandbox.activation.scenario import read_scenario
from sandbox.activation.setup import pinned_tools
from sandbox.activation.texts import Texts
from sandbox.activation.virtual import TESTER, World
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from sandbox.journal.canonical import canonical_text, sha256_hex
from sandbox.journal.codec import wire_json
from sandbox.journal.entries import RunStarted
from sandbox.journal.ids import Digest, Epoch, NamespaceId, RunId, TimeMs
from tests.corpus.scripts import RECIPES, Recipe

EPOCH = Epoch(1)
FOLDER = Path(__file__).parent / f"e{EPOCH}"
RUN = RunId("01a0b0c0-0000-7000-8000-000000000001")
NAMESPACE = NamespaceId("acme")
SEED = "00112233445566778899aabbccddeeff"
TTL_MS = 30 * 86_400_000


async def recorded(pool: ChildPool, recipe: Recipe) -> dict[str, Any]:
    """What `sandbox.local` takes to replay it."""
    tools: list[dict[str, Any]] = [{"name": name} for name in recipe.tools]
    tools += [{"name": name, "approval": True} for name in recipe.gated]
    compiled = await pool.strip(recipe.source, EPOCH)
    assert isinstance(compiled, Compiled), compiled
    texts = Texts()
    asked = {"mocks": recipe.mocks, "signals": recipe.signals, "approvals": recipe.approvals}
    scenario = read_scenario(asked)
    started = RunStarted(
        input=texts.value(canonical_text(recipe.input)),
        script=Digest(f"sha256:{sha256_hex(recipe.source.encode())}"),
        toolset=None,
        seed=SEED,
        epoch=EPOCH,
        deadline=TimeMs(scenario.start + TTL_MS),
        labels={"team": "blue"},
        limits=recipe.limits,
        started_by=TESTER,
    )
    play = Play(RUN, NAMESPACE, "acme", EPOCH, compiled, pinned_tools(tools), recipe.limits, recipe.source)
    cancel = None
    if recipe.cancel_at is not None:
        cancel = (TimeMs(scenario.start + recipe.cancel_at), recipe.cancel)
    played = await World(play, started, scenario, texts).run(pool, cancel=cancel)
    journal = [
        json.loads(wire_json(e.seq, e.type, e.time, cause=e.cause, fire_at=e.fire_at, body=e.body))
        for e in played.entries
    ]
    return {
        "script": recipe.source,
        "toolset": {"tools": tools},
        "run": RUN,
        "namespace": "acme",
        "journal": journal,
    }


async def record_all() -> None:
    async with ChildPool(children=1) as pool:
        for name, recipe in RECIPES.items():
            case = await recorded(pool, recipe)
            (FOLDER / f"{name}.json").write_text(json.dumps(case, indent=1, ensure_ascii=True) + "\n")
            print(f"{name}: {len(case['journal'])} entries, {case['journal'][-1]['type']}")


if __name__ == "__main__":
    asyncio.run(record_all())
