"""Recorded runs of each epoch, replayed by `python -m sandbox.local`: what was recorded once replays for ever.

Only x86_64 replays them in CI: the engine's wheel for arm64 exists and the system-call filter knows its numbers,
but nothing here runs on it. Floating-point functions of V8 are its own (ieee754), so the results should be equal.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from sandbox.journal.codec import TYPE_NAMES
from tests.corpus.scripts import RECIPES
from tests.fixtures.local_sandbox import LocalSandbox, local_sandbox

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("e*/*.json"))
UNRELEASED = "while the epoch is unreleased, record it anew: python -m tests.corpus.record"
GLOBALS = [
    "AbortController",
    "AbortSignal",
    "Array",
    "ArrayBuffer",
    "BigInt",
    "Boolean",
    "DataView",
    "Date",
    "Error",
    "Event",
    "EventTarget",
    "Intl",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "Reflect",
    "RegExp",
    "Set",
    "String",
    "Symbol",
    "TextDecoder",
    "TextEncoder",
    "URL",
    "URLSearchParams",
    "WeakMap",
    "WeakSet",
    "atob",
    "btoa",
    "clearInterval",
    "clearTimeout",
    "console",
    "crypto",
    "performance",
    "queueMicrotask",
    "setInterval",
    "setTimeout",
    "structuredClone",
]
ENDINGS = {"complete_run", "fail_run", "cancel_run", "run_aborted"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[LocalSandbox]:
    async with local_sandbox() as started:
        yield started


def case(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_recorded_run_does_the_same_again(local: LocalSandbox, path: Path) -> None:
    answer = await local.ask(id=path.stem, verb="replay", **case(path))
    assert answer.get("result", answer).get("matches") is True, f"{answer}\n{UNRELEASED}"


async def test_a_changed_journal_does_not_match(local: LocalSandbox) -> None:
    """Whatever recorded command is changed: the check is no formality."""
    changed = case(FOLDER / "e1" / "kinds.json")
    timer = next(entry for entry in changed["journal"] if entry.get("delay") == 2_000)
    timer["delay"] = 3_000
    answer = (await local.ask(id=1, verb="replay", **changed))["result"]
    assert answer["matches"] is False
    assert (answer["diverged_at"]["seq"], answer["diverged_at"]["field"]) == (timer["seq"], "delay")


async def test_the_corpus_has_every_kind_of_entry_every_ending_and_every_built_in() -> None:
    recorded = {path.stem: case(path)["journal"] for path in FILES if path.parent.name == "e1"}
    assert set(recorded) == set(RECIPES), UNRELEASED
    kinds = {entry["type"] for journal in recorded.values() for entry in journal}
    assert kinds == set(TYPE_NAMES.values())
    assert {journal[-1]["type"] for journal in recorded.values()} == ENDINGS
    found = recorded["built-ins"][-1]["output"]["value"]["found"]
    assert set(GLOBALS) <= set(found)


async def test_scripts_are_recorded_as_they_are_written() -> None:
    for path in FILES:
        assert case(path)["script"] == RECIPES[path.stem].source, UNRELEASED
