"""Seeded simulations of the engine. A failing seed is printed; `make sim SEED=n` plays it again.

CI plays the same thousands each time, so that its verdict is about the commit: any change of the engine makes other
histories of them. `make sim COUNT=n` plays so many new ones.
"""

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fixtures.database import REPOSITORY
from tests.simulation import mutations_edges
from tests.simulation.crashes import points
from tests.simulation.figures import figures
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.simulation import play

pytestmark = [
    # Killed processes leave coroutines behind that nobody will ever await.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SAMPLE = int(os.environ.get("REWIND_SIMULATIONS", "2000"))
FIRST_SEED = 7_000_000
PARTS = 4
SEEDS_MAX = 600
"""Within so many seeds every known bug is found."""
HAPPENS = (
    "crashes",
    "aimed crashes",
    "pauses",
    "workers superseded",
    "runs taken over",
    "commands refused",
    "requests lost",
    "answers lost",
    "hints lost",
    "hints doubled",
    "events refused: not_pending",
    "events refused: duplicate",
    "events refused: ended",
    "events held by forks",
    "forks refused",
    "forks of completed runs",
    "forks of failed runs",
    "forks of cancelled runs",
    "forks of aborted runs",
    "children new",
    "drained",
    "aimed drains",
)
"""What a few hundred seeds see all of."""
CRASHED_AT = 0.8
"""Of the awaits of our code, in a few hundred seeds; thousands reach all."""


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("sandbox").setLevel(logging.CRITICAL)
    logging.getLogger("app").setLevel(logging.CRITICAL)


def first_seed() -> int:
    given = os.environ.get("REWIND_SEED")
    if given == "new":
        return int.from_bytes(os.urandom(4), "big")
    return int(given or FIRST_SEED)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(3600)
def test_whatever_goes_wrong_the_engine_holds(
    part: int, record_property: Callable[[str, object], None]
) -> None:
    first = first_seed() + part * SAMPLE
    seeds = range(first, first + SAMPLE // PARTS)
    played = [play(seed) for seed in seeds]
    record_property("simulated", figures(seeds, played, points()))
    if len(seeds) < 300:
        return
    ends = sum((one.runs for one in played), Counter())
    assert set(ends) == {"completed", "failed", "cancelled", "aborted"}
    counts = sum((one.counts for one in played), Counter())
    assert {name for name in HAPPENS if not counts[name]} == set()
    crashed = {point for one in played for point in one.crashed_at}
    assert len(crashed) > CRASHED_AT * len(points())


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


@pytest.mark.parametrize("make", [*MUTATIONS, *mutations_edges.MUTATIONS], ids=lambda make: make.__name__)
def test_the_simulation_finds(make: Mutation) -> None:
    for seed in range(SEEDS_MAX):
        try:
            with make():
                play(seed)
        except Exception as error:  # whatever it broke, it was noticed
            print(f"{make.__name__}: seed {seed}: {error}")
            return
    pytest.fail(f"{make.__name__} was not found in {SEEDS_MAX} seeds")
