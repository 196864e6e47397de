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


UNREACHED = (
    ("app/dispatcher/calls.py", "_prepared", "spec, secrets", "http is called like MCP"),
    ("app/dispatcher/calls.py", "_call_tool", "", "the server itself is the simulation's"),
    ("app/dispatcher/calls.py", "_make", "problem_of", "a check that is cheap is made at once"),
    ("app/dispatcher/calls.py", "_ask", "problem_of", "likewise"),
    ("app/dispatcher/calls.py", "_ask", "beside_loop", "what is small is done at once"),
    ("sandbox/activation/live_run.py", "_load", "Settlement.load", "with entries it asks nobody"),
    ("sandbox/worker/warm_runs.py", "_drive", "_quarantine", "of a fault of the platform: it would be a bug"),
)
"""(file, function, what the line has, why): awaits at which nobody ever stands."""
RARE = (
    ("app/dispatcher/children.py", "_handle", "self._cancel"),
    ("app/dispatcher/loop.py", "_drain", "gather"),
    ("app/dispatcher/loop.py", "_drain", "release_calls"),
    ("app/dispatcher/loop.py", "_renew", "release_calls"),
    ("sandbox/activation/prefix.py", "run", "deliverable"),
    ("sandbox/worker/warm_runs.py", "_quarantine", "self._forget"),
    ("sandbox/worker/warm_runs.py", "abandon", ""),
    ("sandbox/worker/warm_runs.py", "drain", "live.report"),
)
"""(file, function, what the line has): awaits that few seeds come to; two thirds of the seeds take aim at them."""


@cache
def points() -> dict[Point, str]:
    """Every await of these files, with the function that it stands in."""
    found: dict[Point, str] = {}
    for name in FILES:
        text = (REPOSITORY / name).read_text()
        for function in ast.walk(ast.parse(text)):
            if not isinstance(function, ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                waits = isinstance(node, ast.Await | ast.AsyncFor) or (
                    isinstance(node, ast.AsyncWith) and not _is_timeout(node)
                )
                if waits and not _is_listed(UNREACHED, name, node.lineno, function.name):
                    found[name, node.lineno] = function.name
    return found


@cache
def rare() -> frozenset[Point]:
    return frozenset(point for point, function in points().items() if _is_listed(RARE, *point, function))


def _is_listed(listed: tuple[tuple[str, ...], ...], name: str, line: int, function: str) -> bool:
    text = _lines(name)[line - 1]
    return any((name, function) == known[:2] and known[2] in text for known in listed)


@cache
def _lines(name: str) -> list[str]:
    return (REPOSITORY / name).read_text().splitlines()


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
