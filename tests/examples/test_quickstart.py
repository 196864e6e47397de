"""`make run ONCE=1`, twice on one data folder: what a newcomer sees."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
pytestmark = pytest.mark.e2e


def quickstart(data: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REWIND_")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.quickstart.run", "--once"],
        cwd=REPOSITORY,
        env={**environment, "REWIND_DATA": str(data), "REWIND_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_quick_start_twice(tmp_path: Path) -> None:
    data = tmp_path / ".rewind"
    first = quickstart(data)
    assert "earlier run" not in first
    run = re.search(r"run +(\S+) started", first)
    assert run is not None
    assert '"closed": ["#11 Footer overlaps the cookie banner", "#31' in first
    assert re.search(r"address +http://127.0.0.1:\d+", first)
    assert re.search(r"API key +rwk_\w+", first)
    seqs = [int(line.split()[0]) for line in first.splitlines() if re.match(r" +\d+ +\d", line)]
    assert seqs == list(range(27))
    assert "run completed  output" in first

    second = quickstart(data)
    assert f"1 earlier run; the last one {run.group(1)} completed" in second
    assert not (data / "dev.json").exists()
    closed = [json.loads(line) for line in (data / "quickstart" / "closed.jsonl").read_text().splitlines()]
    assert [record["number"] for record in closed] == [11, 31, 38] * 2
    assert len({record["key"] for record in closed}) == 6
