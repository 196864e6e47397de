"""Seeded simulations of the engine. A failing seed is printed; `make sim SEED=n` plays it again.

CI plays a sample from a new seed each time; `make sim` plays thousands (COUNT=n: as many).
"""

import logging
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.fixtures.database import REPOSITORY
from tests.simulation.mutations import MUTATIONS
from tests.simulation.simulation import play

pytestmark = [
    # Killed processes leave coroutines behind that nobody will ever await.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SAMPLE = int(os.environ.get("REWIND_SIMULATIONS", "300"))
PARTS = 4
SEEDS_MAX = 120
"""Within so many seeds every known bug is found."""


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("sandbox").setLevel(logging.CRITICAL)
    logging.getLogger("app").setLevel(logging.CRITICAL)


def first_seed() -> int:
    given = os.environ.get("REWIND_SEED")
    return int(given) if given else int.from_bytes(os.urandom(4), "big")


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3600)
def test_whatever_goes_wrong_the_engine_holds(part: int) -> None:
    first = first_seed() + part * SAMPLE
    count = 1 if os.environ.get("REWIND_SEED") and SAMPLE == 1 else SAMPLE // PARTS
    ends: Counter[str] = Counter()
    crashes = pauses = 0
    for seed in range(first, first + count):
        print(f"seed {seed}", end="\r")
        played = play(seed)
        ends.update(played.runs)
        crashes, pauses = crashes + played.crashes, pauses + played.pauses
    print(f"\n{count} seeds from {first}: {dict(ends)}, {crashes} crashes, {pauses} pauses")
    if count >= 50:
        assert set(ends) >= {"completed", "failed", "cancelled"}
        assert crashes > 50 < pauses + 50


def test_one_seed_is_one_history() -> None:
    """Also in another process, where sets and dicts of strings have another order."""
    traces = {play(seed).trace for seed in (11, 12, 13)}
    assert len(traces) == 3
    code = "from tests.simulation.simulation import play; print(*{play(s).trace for s in (11, 12, 13)})"
    for hash_seed in ("1", "2"):
        shown = subprocess.run(
            [sys.executable, "-c", code],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": f"{REPOSITORY}:{REPOSITORY}/sdk_python",
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert set(shown.stdout.split()) == traces


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_simulation_finds(name: str) -> None:
    for seed in range(SEEDS_MAX):
        try:
            with MUTATIONS[name]():
                play(seed)
        except Exception as error:  # whatever it broke, it was noticed
            print(f"{name}: seed {seed}: {error}")
            return
    pytest.fail(f"{name} was not found in {SEEDS_MAX} seeds")
