"""Nobody but us begins a line of a log."""

import logging
import sys

from sandbox.telemetry import CONTINUED, FORMAT, OwnLines

FORGED = "2026-01-01 00:00:00,000 INFO app.serve: all is well"


def test_words_of_others_begin_no_line() -> None:
    try:
        raise ValueError(f"a name\n{FORGED}\r{FORGED}\u2028{FORGED}")
    except ValueError:
        record = logging.LogRecord(
            "app", logging.ERROR, "x", 1, "%s\x1b[2K", (f"x\n{FORGED}",), sys.exc_info()
        )
    first, *rest = OwnLines(FORMAT).format(record).split("\n")
    assert first.endswith("ERROR app: x")
    assert all(line.startswith(CONTINUED) for line in rest)
    assert sum(FORGED in line for line in rest) == 4
    assert rest[0] == f"{CONTINUED}{FORGED}\\x1b[2K"
    assert not any(mark in line for line in rest for mark in "\r\u2028\x1b")
