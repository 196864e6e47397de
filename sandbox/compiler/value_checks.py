"""Checks of values against schemas, in processes of their own where the cost is not known to be small.

A pattern with a look-around, an enumeration of thousands for a list of thousands: small requests that would hold an
event loop, and all tenants on it, for minutes. `ValueValidator.is_cheap` says which checks are made at once.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson

from sandbox.compiler.fair_threads import FairThreads
from sandbox.compiler.json_schema import ValueValidator, in_words
from sandbox.compiler.value_child import ANSWER_LENGTH, CPU_S, LENGTH, READY
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import Json

CHILDREN = 2
ANSWER_S = 30.0
"""Of real time, for a child that gets no processor or was stopped; CPU_S is what ends the others."""
PACKAGE_ROOT = Path(__file__).resolve().parents[2]
TOO_LONG = (
    f"checking it against the schema took more than {CPU_S:g} s of processor time, or too much memory:"
    " simplify the schema's patterns, enumerations or references"
)

_threads = FairThreads(CHILDREN, "value-checks")
_mine = threading.local()


async def problem_of(validator: ValueValidator, text: bytes, parse: Callable[[bytes], Json]) -> str | None:
    """Say what is wrong with a value, given as its JSON text; None when it is valid or cannot be checked.

    Errors: Unavailable when no process can be started.
    Limits: CPU_S of processor time; a check that needs more counts as a problem.
    """
    if validator.is_cheap(len(text)):
        return validator.problem(parse(text))
    problem = await _threads.run(partial(_asked, orjson.dumps(validator.schema), text))
    if problem == TOO_LONG:
        _threads.note_waste()
    return problem


def _asked(schema: bytes, text: bytes) -> str | None:
    """In one of the threads: ask its child, which is started again when a check has ended it."""
    child = getattr(_mine, "child", None)
    if child is not None and child.poll() is not None:
        _end(child)
        child = None
    if child is None:
        child = _mine.child = _start()
    assert child.stdin is not None
    assert child.stdout is not None
    watchdog = threading.Timer(ANSWER_S, child.kill)
    watchdog.start()
    try:
        child.stdin.write(LENGTH.pack(len(schema), len(text)) + schema + text)
        child.stdin.flush()
        header = child.stdout.read(ANSWER_LENGTH.size)
        answer = (
            child.stdout.read(*ANSWER_LENGTH.unpack(header)) if len(header) == ANSWER_LENGTH.size else b""
        )
    except BrokenPipeError:
        answer = b""
    finally:
        watchdog.cancel()
    if not answer:
        _end(child)
        return TOO_LONG
    return in_words([(path, message) for path, message in orjson.loads(answer)])


def _start() -> subprocess.Popen[bytes]:
    """Without the parent's environment: it holds credentials. Its end is the end of its input, the parent's too."""
    child = subprocess.Popen(
        [sys.executable, "-s", "-m", "sandbox.compiler.value_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(PACKAGE_ROOT), "LC_ALL": "C.UTF-8"},
    )
    assert child.stdout is not None
    if child.stdout.read(len(READY)) != READY:
        _end(child)
        raise Unavailable("The process that checks values against schemas did not start.")
    return child


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.communicate()  # closes the pipes, whatever was left in them, and reaps
