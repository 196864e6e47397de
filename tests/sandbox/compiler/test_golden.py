"""Mistakes that models make, and the text that they get: one script and one text each, read by people.

`REWIND_UPDATE_SNAPSHOTS=1` writes the texts anew; then read what changed.
"""

import json
import os
from pathlib import Path

import orjson
import pytest

from sandbox.compiler.check import Checker
from sandbox.compiler.diagnostics import BYTES_MAX, readable
from sandbox.compiler.toolset import toolset_of
from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.isolate.pool import ChildPool
from sandbox.journal.ids import Epoch

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOLDEN = Path(__file__).with_name("golden")
SCRIPTS = sorted(GOLDEN.glob("*.ts"))
TOOLSET = toolset_of("golden", json.loads((GOLDEN / "tools.json").read_text()))


def text_of(found: Diagnostic) -> str:
    head = f"{found.severity} {found.code} at {found.line}:{found.column}-{found.end_line}:{found.end_column}"
    lines = [head, found.message, *([found.frame] if found.frame else [])]
    return "\n".join([*lines, *([f"hint: {found.hint}"] if found.hint else [])])


async def test_there_are_at_least_forty() -> None:
    assert len(SCRIPTS) >= 40


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
async def test_what_the_author_reads(checker: Checker, stripper: ChildPool, path: Path) -> None:
    source = path.read_text()
    report = await checker.check(source, TOOLSET, epoch=Epoch(1), tenant="golden")
    stripped = await stripper.strip(source, 1)
    found = readable(source, TOOLSET, report.diagnostics, [] if isinstance(stripped, Compiled) else stripped)
    assert found
    assert len(orjson.dumps([one.to_json() for one in found])) <= BYTES_MAX
    text = "\n\n".join(text_of(one) for one in found) + "\n"
    expected = path.with_suffix(".txt")
    if os.environ.get("REWIND_UPDATE_SNAPSHOTS") == "1":
        expected.write_text(text)
    assert text == expected.read_text()
