"""`DEMO=crash`: the process that runs the script is killed with -9 while one of its calls is being executed."""

import json
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rewind import Tool

from examples.quickstart.executions import DATA
from examples.quickstart.server import NotStarted

HELD_S = 20.0


class Crash:
    """Kills the data plane in the middle of the second call of a host tool."""

    AT = 2

    def __init__(self, tool: Tool) -> None:
        self.tool = replace(tool, handler=self._held)
        self.killed: int | None = None
        self._handler = tool.handler
        self._scheduled = self._begun = 0
        self._begins, self._over = threading.Event(), threading.Event()

    def _held(self, *args: Any, **kwargs: Any) -> Any:
        """The tool, which at its call AT waits until the crash has happened."""
        self._begun += 1
        if self._begun == self.AT:
            self._begins.set()
            self._over.wait(HELD_S)
        return self._handler(*args, **kwargs)

    def after(self, entry: Mapping[str, Any]) -> str | None:
        """Kill if this entry of the journal asks for the call; answers what to say about it."""
        if entry["type"] != "schedule_tool_call" or entry["tool"] != self.tool.name:
            return None
        self._scheduled += 1
        if self._scheduled != self.AT or not self._begins.wait(HELD_S):
            return None
        self.killed = worker_pid()
        os.kill(self.killed, signal.SIGKILL)
        self._over.set()
        return f"kill -9 {self.killed}: the process that runs the script, while {self.tool.name} is executed"


def worker_pid() -> int:
    """The data plane's process, as the running `rewind dev` names it."""
    try:
        return int(json.loads((DATA / "services.json").read_text())["pids"]["worker"])
    except (OSError, ValueError, KeyError):
        raise NotStarted(f"{DATA / 'services.json'} names no worker to kill") from None
