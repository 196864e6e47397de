"""`make run ONCE=1` and `make run DEMO=crash ONCE=1` on one data folder: what a newcomer sees."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from infra.processes import is_alive, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120
TRACKER = [sys.executable, "-m", "examples.quickstart.tracker_server"]
pytestmark = pytest.mark.e2e


def quickstart(data: Path, *options: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REWIND_")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.quickstart.run", "--once", *options],
        cwd=REPOSITORY,
        env={**environment, "REWIND_DATA": str(data), "REWIND_PORT": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the tools executed 9 calls; none of them more than once" in done.stdout
    assert seqs(done.stdout) == list(range(27))
    assert '"closed": ["#11 Footer overlaps the cookie banner", "#31' in done.stdout
    return done.stdout


def seqs(output: str) -> list[int]:
    return [int(line.split()[0]) for line in output.splitlines() if re.match(r" +\d+ +\d", line)]


def test_the_quick_start_and_then_its_crash(tmp_path: Path) -> None:
    data = tmp_path / ".rewind"
    first = quickstart(data)
    assert "earlier run" not in first
    assert "killed" not in first
    run = re.search(r"run +(\S+) started", first)
    assert run is not None
    assert re.search(r"read_comments: the MCP server http://127.0.0.1:\d+/mcp", first)
    assert re.search(r"address +http://127.0.0.1:\d+", first)
    assert re.search(r"API key +rwk_\w+", first)
    assert "run completed  output" in first

    second = quickstart(data, "--crash")
    assert f"1 earlier run; the last one {run.group(1)} completed" in second
    crash = re.search(r"close_issue #8 .*\n +✗ kill -9 (\d+): .*\n +23 .*← close_issue #8 ok", second)
    assert crash is not None, second
    ends = re.search(r"process (\d+) was killed; process (\d+) went on from the journal", second)
    assert ends is not None, second
    assert ends.group(1) == crash.group(1) != ends.group(2)

    assert not (data / "dev.json").exists()
    closed = [json.loads(line) for line in (data / "quickstart" / "closed.jsonl").read_text().splitlines()]
    assert [record["number"] for record in closed] == [11, 31, 38] * 2
    assert len({record["key"] for record in closed}) == 6
    executed = (data / "quickstart" / "executed.jsonl").read_text().splitlines()
    assert len(executed) == len(set(executed)) == 18


def test_the_mcp_server_ends_with_its_parent() -> None:
    """Also when that is killed: nothing is left on the port."""
    code = (
        "import subprocess, sys; child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, "
        "stdout=subprocess.PIPE); child.stdout.readline(); print(child.pid, flush=True); child.wait()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, *TRACKER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    ended = wait_until(lambda: not _runs(child), timeout_s=20)
    if not ended:
        os.kill(child, signal.SIGKILL)
    assert ended


def _runs(pid: int) -> bool:
    """An orphan that has ended may stay as a zombie where nobody reaps it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return is_alive(pid)
