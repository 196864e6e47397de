"""Where processes die: the awaits of our own code, which of them a simulation has crashed at, and which to aim at.

A process is killed between what it waited for and what it would do next. All awaits that its task stands at then, from
the outermost to the innermost, are crash points.
"""

import ast
import asyncio
from functools import cache
from typing import Any

from tests.fixtures.database import REPOSITORY

FILES = (
    "app/dispatcher/calls.py",
    "app/dispatcher/children.py",
    "app/dispatcher/loop.py",
    "app/scheduler/loop.py",
    "app/tasks/strays.py",
    "sandbox/activation/ending.py",
    "sandbox/activation/forking.py",
    "sandbox/activation/live_run.py",
    "sandbox/activation/loading.py",
    "sandbox/activation/prefix.py",
    "sandbox/activation/values.py",
    "sandbox/worker/ownership.py",
    "sandbox/worker/warm_runs.py",
)
"""What simulated processes execute of the product."""
Point = tuple[str, int]
"""A file and a line of it."""
_OWN = {f"{REPOSITORY}/{name}": name for name in FILES}


UNREACHED = {
    (
        "app/dispatcher/calls.py",
        "_prepared",
        "spec, secrets, flight.redactor = await self._found(",
    ): "http is called like MCP",
    (
        "app/dispatcher/calls.py",
        "_call_tool",
        "result = await self._servers.call_tool(endpoint, tool.original, args, key=key, timeout_s=left_s)",
    ): "the server itself is the simulation's",
    (
        "sandbox/activation/live_run.py",
        "_load",
        "self._settlement = await Settlement.load(self._store, self.namespace, self.run, entries)",
    ): "with entries it asks nobody",
    (
        "sandbox/worker/warm_runs.py",
        "_drive",
        "await self._quarantine(live, error)",
    ): "of a fault of the platform, which would be a bug",
}
"""Lines at whose awaits nobody is ever killed, and why."""


@cache
def points() -> dict[Point, str]:
    """Every await of these files, with the function that it stands in."""
    found: dict[Point, str] = {}
    for name in FILES:
        text = (REPOSITORY / name).read_text()
        lines = text.splitlines()
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                waits = isinstance(node, ast.Await | ast.AsyncFor) or (
                    isinstance(node, ast.AsyncWith) and not _is_timeout(node)
                )
                if waits and (name, function.name, lines[node.lineno - 1].strip()) not in UNREACHED:
                    found[name, node.lineno] = function.name
    return found


def _is_timeout(node: ast.AsyncWith) -> bool:
    """`async with asyncio.timeout(...)` itself waits for nothing."""
    call = node.items[0].context_expr
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "timeout"


def standing_at(handle: asyncio.Handle) -> list[Point]:
    """The awaits of our own that this step would go on from."""
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    if not isinstance(task, asyncio.Task):
        return []
    found = []
    work: Any = task.get_coro()
    while work is not None:
        frame = getattr(work, "cr_frame", None)
        if frame is None:
            break
        name = _OWN.get(frame.f_code.co_filename)
        if name is not None:
            found.append((name, frame.f_lineno))
        work = work.cr_await
    return found
