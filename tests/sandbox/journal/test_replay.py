"""Recorded commands against commands made again."""

from dataclasses import replace
from typing import Any

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import TYPE_OF, encode_body
from sandbox.journal.errors import Divergence
from sandbox.journal.ids import Seq, TimeMs
from sandbox.journal.replay import Cursor
from sandbox.store.interface import StoredEntry
from tests.fixtures.entries import call, journal, result, run_started, timer

SITE = e.Callsite(line=4, column=2)
BODIES: list[Any] = [
    call(1, "g.t", {"a": 1}),
    e.ToolCallCancelled(1),
    timer(1, 250),
    e.TimerCleared(1),
    e.SignalAwaited(1, "go", 1, "harness"),
    e.SignalWaitCleared(1),
    e.Log("info", ["a", 1]),
    e.CompleteRun(value_of("ok")),
    e.FailRun(e.ScriptError("E", "m", "c", 1, 2, "f", "s")),
    e.CancelRun("user"),
]


def stored(entry: e.Entry) -> StoredEntry:
    type_ = TYPE_OF[type(entry.body)]
    return StoredEntry(
        entry.seq, type_, entry.time, entry.cause, None, encode_body(entry.body, entry.callsite)
    )


def cursor_over(*bodies: Any) -> Cursor:
    entries = [e.Entry(Seq(0), TimeMs(0), run_started())]
    for body in bodies:
        entries.append(e.Entry(Seq(len(entries)), TimeMs(0), body, Seq(0), SITE))
    return Cursor(map(stored, entries))


def make(cursor: Cursor, body: Any, *, cause: int = 0, site: e.Callsite | None = SITE) -> Seq:
    return cursor.next(TYPE_OF[type(body)], Seq(cause), encode_body(body, site))


def test_equal_commands_pass_in_order_and_events_are_skipped() -> None:
    entries = journal(run_started(), call(1), result(1), timer(1), e.CompleteRun(value_of(1)))
    cursor = Cursor(map(stored, entries))
    assert make(cursor, call(1), site=None) == 1
    assert make(cursor, timer(1), cause=2, site=None) == 3
    with pytest.raises(Divergence):
        cursor.finish()  # the end of the run is missing
    assert make(cursor, e.CompleteRun(value_of(1)), cause=2, site=None) == 4
    cursor.finish()


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_moved_line_is_no_divergence(body: Any) -> None:
    cursor = cursor_over(body)
    make(cursor, body, site=e.Callsite(line=9, column=9))
    cursor.finish()


def test_what_does_not_decide_the_course_is_not_compared() -> None:
    make(cursor_over(call(1, "t", 1)), call(1, "t", 1.0, timeout_ms=5))
    failed = BODIES[8]
    make(cursor_over(failed), e.FailRun(replace(failed.error, stack="other", line=7, frame=None)))


@pytest.mark.parametrize(
    ("recorded", "made", "field", "expected", "actual"),
    [
        (call(1, "a.b"), call(1, "a.c"), "tool", "a.b", "a.c"),
        (call(1, "t", [1]), call(1, "t", [2]), "args", [1], [2]),
        (call(1), call(2), "call", 1, 2),
        (call(1), timer(1), "type", "schedule_tool_call", "start_timer"),
        (timer(1, 10), timer(1, 11), "delay", 10, 11),
        (timer(1, why="sleep"), timer(1, why="timeout"), "why", "sleep", "timeout"),
        (e.TimerCleared(1), e.TimerCleared(2), "timer", 1, 2),
        (e.ToolCallCancelled(1), e.ToolCallCancelled(2), "call", 1, 2),
        (e.SignalAwaited(1, "a"), e.SignalAwaited(1, "b"), "name", "a", "b"),
        (e.SignalAwaited(1, "a"), e.SignalAwaited(1, "a", None, "harness"), "from", None, "harness"),
        (e.SignalAwaited(1, "a"), e.SignalAwaited(1, "a", 1), "timer", None, 1),
        (e.SignalWaitCleared(1), e.SignalWaitCleared(2), "wait", 1, 2),
        (e.Log("info", [1]), e.Log("warn", [1]), "level", "info", "warn"),
        (e.Log("info", [1]), e.Log("info", [2]), "values", [1], [2]),
        (e.CompleteRun(value_of(1)), e.CompleteRun(value_of(2)), "output", 1, 2),
        (e.CancelRun("user"), e.CancelRun("ttl"), "reason", "user", "ttl"),
    ],
)
def test_a_difference_is_named(recorded: Any, made: Any, field: str, expected: Any, actual: Any) -> None:
    with pytest.raises(Divergence) as diverged:
        make(cursor_over(recorded), made, site=e.Callsite(line=7, column=1))
    found = diverged.value
    assert (found.seq, found.field_name, found.line, found.recorded_line) == (1, field, 7, 4)
    if field in {"args", "output"}:
        assert found.expected == {"sha256": value_of(expected).sha256, "value": expected}
        assert found.actual == {"sha256": value_of(actual).sha256, "value": actual}
    else:
        assert (found.expected, found.actual) == (expected, actual)


def test_large_values_are_compared_by_digest() -> None:
    large, other = value_of("x" * 70_000), value_of("y" * 70_000)
    recorded = e.CompleteRun(large)
    make(cursor_over(recorded), recorded, site=None)
    with pytest.raises(Divergence) as diverged:
        make(cursor_over(recorded), e.CompleteRun(other))
    assert diverged.value.expected == {"sha256": large.sha256}


def test_an_error_is_compared_by_name_code_and_message() -> None:
    failed = BODIES[8]
    for change in ({"name": "F"}, {"code": None}, {"message": "n"}):
        with pytest.raises(Divergence, match="error was"):
            make(cursor_over(failed), e.FailRun(replace(failed.error, **change)))


def test_another_cause_is_a_divergence() -> None:
    with pytest.raises(Divergence) as diverged:
        make(cursor_over(call(1)), call(1), cause=2)
    assert (diverged.value.field_name, diverged.value.expected, diverged.value.actual) == ("cause", 0, 2)


def test_a_command_too_many_and_a_command_too_few() -> None:
    cursor = cursor_over(call(1, "t"))
    with pytest.raises(Divergence) as missing:
        cursor.finish()
    assert (missing.value.seq, missing.value.actual, missing.value.recorded_line) == (1, None, 4)
    make(cursor, call(1, "t"))
    with pytest.raises(Divergence, match="after the last recorded command") as extra:
        make(cursor, call(2, "t"))
    assert (extra.value.seq, extra.value.line) == (None, 4)
    assert isinstance(extra.value.actual, dict)
    assert extra.value.actual["tool"] == "t"
