"""docs/guide.md as a newcomer follows it: its files are saved, its commands typed, on a real server.

A block that names a file is saved; each line of a `sh` block is a command, `# exit code N` says how it ends (0 else),
`&` leaves it running, and `$RUN` is the run that a command printed last.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.fixtures.processes import REPOSITORY, StartDev

pytestmark = pytest.mark.e2e
GUIDE = (REPOSITORY / "docs" / "guide.md").read_text()
COMMAND_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = re.compile(r"^run ([0-9a-f-]{36})  ", re.MULTILINE)
_EXIT = re.compile(r"# exit code (\d)")


class Terminal:
    """Types the guide's commands in a folder; remembers what each printed."""

    def __init__(self, folder: Path, environ: dict[str, str], stack: ExitStack) -> None:
        self._folder = folder
        self._environ = environ
        self._stack = stack
        self.printed: dict[str, str] = {}

    def type(self, line: str) -> None:
        command = line.partition(" #")[0].strip()
        if command.endswith("&"):
            self._stack.enter_context(left_running(command.rstrip("& "), self._folder, self._environ))
            return
        done = subprocess.run(
            command,
            shell=True,
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_TIMEOUT_S,
        )
        wanted = _EXIT.search(line)
        shown = f"{line}\n{done.stdout}{done.stderr}"
        assert done.returncode == (int(wanted[1]) if wanted else 0), shown
        self.printed[command] = done.stdout + done.stderr
        if runs := _RUN.findall(done.stdout):
            self._environ["RUN"] = runs[-1]

    def of(self, beginning: str) -> str:
        """What the commands printed that begin so."""
        return "\n".join(text for command, text in self.printed.items() if command.startswith(beginning))


@contextmanager
def left_running(command: str, folder: Path, environ: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command.split(), cwd=folder, env=environ)
    try:
        yield
    finally:
        process.terminate()
        process.wait(STOP_TIMEOUT_S)


def test_the_guide_does_what_it_says(start_dev: StartDev, tmp_path: Path) -> None:
    dev = start_dev()
    folder = tmp_path / "agent"
    folder.mkdir()
    environ = {
        **os.environ,
        "REWIND_URL": dev.url,
        "REWIND_API_KEY": dev.api_key,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with ExitStack() as stack:
        terminal = Terminal(folder, environ, stack)
        for language, name, text in _BLOCK.findall(GUIDE):
            if name:
                (folder / name).write_text(text)
            elif language == "sh":
                for line in text.splitlines():
                    terminal.type(line)
    assert "has no argument `amount`" in terminal.of("rewind check")
    assert "shop.refund" in terminal.of("rewind approvals list")
    assert '"A-2 denied by hal: too much"' in terminal.of("rewind runs get")
    assert terminal.of("rewind test").startswith("completed")
    assert "reuses 3 calls" in terminal.of("rewind runs fork") and terminal.of("rewind runs fork").endswith(
        "\n2\n"
    )
    assert terminal.of("python workflows.py").startswith("timer ")
    assert terminal.of("python workflows.py").endswith("\ncancelled\n")
    assert "narrowed to" in terminal.of("rewind tokens create")
    assert "may only use the toolset" in terminal.of("python product.py")
    assert "active_runs" in terminal.of("python product.py")
