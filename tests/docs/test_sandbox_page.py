"""docs/sandbox.md says what the code does: every figure, layer, global and error that it names."""

import json
import re
from dataclasses import asdict
from pathlib import Path

from sandbox.isolate import pool, process
from sandbox.isolate.confine import DATA_BYTES_MAX, LAYERS, OPEN_FILES_MAX
from sandbox.isolate.seccomp import _CALLS
from sandbox.journal.entries import Limits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "sandbox.md").read_text()
SOURCES = ROOT / "sandbox" / "epochs" / "e1" / "src"


def rows() -> dict[str, int]:
    """The figure of every table row that names a constant."""
    return {
        name: int(figure)
        for name, figure in re.findall(r"^\| [^|]*\(`(\w+)`\) \| (\d+)", PAGE, flags=re.MULTILINE)
    }


def section(title: str) -> str:
    found = re.search(rf"^### {title}\n(.*?)(?=^##)", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_every_limit_is_listed_with_its_figure() -> None:
    listed = rows()
    limits = asdict(Limits())
    assert {name: figure for name, figure in listed.items() if name in limits} == limits


def test_the_bounds_of_the_prelude_are_its_own() -> None:
    bounds = {}
    for path in SOURCES.glob("*.js"):
        for name, power in re.findall(
            r"^const (\w+_MAX) = 2 \*\* (\d+);", path.read_text(), flags=re.MULTILINE
        ):
            bounds[name] = 2 ** int(power)
    listed = {name: figure for name, figure in rows().items() if name.isupper()}
    assert set(listed) == {"ELEMENTS_MAX", "CHARACTERS_MAX", "NORMALIZED_MAX", "BYTES_MAX"}
    assert listed == {name: bounds[name] for name in listed}


def test_globals() -> None:
    corpus = json.loads((ROOT / "tests" / "corpus" / "e1" / "built-ins.json").read_text())
    found = set(corpus["journal"][-1]["output"]["value"]["found"])
    exist = set(re.findall(r"`(\w+)`", section("What exists"))) - {"Intl", "UTC"}
    assert len(exist) > 18
    assert exist <= found
    absent = set(re.findall(r"`(\w+)`", section("What does not").rpartition("none of:")[2]))
    assert len(absent) == 6
    assert not absent & found


def test_errors() -> None:
    named = set(re.findall(r"`(\w+Error)`", section("Errors")))
    exported = re.search(r"rewind = freeze\(\{(.*?)\}\)", (SOURCES / "main.js").read_text(), flags=re.DOTALL)
    assert exported is not None
    assert named == set(re.findall(r"\b(\w+Error)\b", exported[1]))


def test_layers_and_figures_of_the_operators_part() -> None:
    table = re.findall(r"^\| `(\w+)` \|", section("Layers of the confinement"), flags=re.MULTILINE)
    assert tuple(table) == LAYERS
    assert f"{DATA_BYTES_MAX // 1024**3} GiB of memory and {OPEN_FILES_MAX} descriptors" in PAGE
    assert f"every system call but {len(_CALLS)}:" in PAGE
    assert f"{pool.IDLE_BYTES_MAX // 1024**2} MiB" in PAGE
    assert f"{process.RSS_BYTES_MAX / 1024**3} GiB" in PAGE
