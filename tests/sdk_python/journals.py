"""Entries of a journal as the API gives them, for the tests of what is printed."""

from typing import Any

START_MS = 1_790_000_000_000


def value(content: Any, size: int = 40) -> dict[str, Any]:
    return {"sha256": "ab" * 32, "bytes": size, "value": content}


def entry(seq: int, kind: str, at_ms: int, line: int | None = None, **fields: Any) -> dict[str, Any]:
    place = {} if line is None else {"callsite": {"line": line, "column": 3}}
    return {"seq": seq, "type": kind, "time": START_MS + at_ms, **place, **fields}


_POLICY = {"approval": None, "idempotent": False, "timeout_ms": None, "retry": None}
_GATED = {**_POLICY, "approval": True}
_ERROR = {"name": "ToolError", "code": "timeout", "message": "no answer in 60 s", "retryable": True}
EVERY_KIND = [
    entry(0, "run_started", 0, input=value({"repo": "acme/site"}), script="sha256:00", seed="00"),
    entry(
        1,
        "schedule_tool_call",
        0,
        5,
        call=1,
        tool="github.list_issues",
        args=value({"state": "open"}),
        policy=_POLICY,
    ),
    entry(2, "schedule_tool_call", 0, 6, call=2, tool="pay", args=value({}, 2), policy=_GATED),
    entry(3, "tool_call_completed", 17, call=1, result=value({"issues": []}), attempts=1),
    entry(4, "approval_decided", 900, call=2, decision="denied", by="ada", reason="too much"),
    entry(
        5,
        "tool_call_completed",
        900,
        call=2,
        attempts=0,
        error={"name": "ApprovalDeniedError", "message": "denied by ada"},
    ),
    entry(6, "schedule_tool_call", 900, 8, call=3, tool="slow", args=value(None, 4), policy=_POLICY),
    entry(7, "tool_call_cancelled", 900, 9, call=3),
    entry(8, "tool_call_completed", 61_900, call=3, error=_ERROR, attempts=2),
    entry(9, "log", 61_900, 10, level="warn", values=["slow", {"ms": 61_000}]),
    entry(
        10,
        "start_timer",
        61_900,
        11,
        timer=1,
        delay=864_000_000,
        fire_at=START_MS + 864_061_900,
        why="sleep",
    ),
    entry(11, "timer_fired", 864_061_900, timer=1),
    entry(
        12,
        "start_timer",
        864_061_900,
        12,
        timer=2,
        delay=3_600_000,
        fire_at=START_MS + 867_661_900,
        why="signal_timeout",
    ),
    entry(13, "signal_awaited", 864_061_900, 12, wait=1, name="decision", timer=2),
    entry(
        14,
        "signal_received",
        864_065_000,
        name="decision",
        payload=value({"yes": True}),
        id="s1",
        by="ada",
    ),
    entry(15, "timer_cleared", 864_065_000, 12, timer=2),
    entry(16, "signal_awaited", 864_065_000, 13, wait=2, name="more", **{"from": "harness"}),
    entry(17, "signal_wait_cleared", 864_065_000, 13, wait=2),
    entry(18, "cancel_requested", 864_066_000, reason="user", by="ada"),
    entry(19, "complete_run", 864_066_000, output={"sha256": "cd" * 32, "bytes": 1_300_000}),
    entry(
        20,
        "fail_run",
        864_066_000,
        error={
            "name": "TypeError",
            "message": "x is undefined",
            "line": 3,
            "column": 7,
            "frame": "> 3 | x.y\n    |   ^",
        },
    ),
    entry(21, "cancel_run", 864_066_000, reason="user"),
    entry(22, "run_aborted", 864_066_000, limit="cpu", allowed=5000, used=5003),
    entry(23, "run_cured", 864_066_000, by="magic"),
]
"""One of each, in an order that a run could have."""
