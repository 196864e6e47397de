"""Journals and frames as people read them."""

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codeframe import code_frame
from sandbox.journal.timeline import elapsed, timeline
from tests.fixtures.entries import call, failure, journal, result, run_started, signal, timer


def test_a_journal_told() -> None:
    entries = journal(
        run_started(), call(1, "github.list_issues", {"repo": "a/b"}), e.Log("info", ["two\nlines", {"a": 1}]),
        result(1, [1]), timer(1, 1500), e.SignalAwaited(1, "go"), e.TimerFired(1), signal("go", {"yes": True}),
        call(2, "x"), failure(2), e.CompleteRun(value_of("ok")), tick_ms=412,
    )  # fmt: skip
    entries[1] = e.Entry(
        entries[1].seq, entries[1].time, entries[1].body, entries[1].cause, e.Callsite(12, 3)
    )
    assert list(timeline(entries)) == [
        '  0    +0.000s        started with {"repo":"a/b"}',
        '  1    +0.000s  L12   github.list_issues({"repo":"a/b"}) #1',
        '  2    +0.000s        info: two\\nlines {"a":1}',
        "  3    +0.412s        github.list_issues #1 returned [1]",
        "  4    +0.412s        timer 1 (sleep) for 1500 ms",
        "  5    +0.412s        waits for signal go",
        "  6    +1.000s        timer 1 fired",
        '  7    +1.412s        signal go {"yes":true}',
        "  8    +1.412s        x(null) #2",
        "  9    +1.824s        x #2 failed: ToolError: no",
        ' 10    +1.824s        completed with "ok"',
    ]


OTHERS = {
    "call #1 denied by ann": e.ApprovalDecided(1, "denied", "ann", None),
    "call #1 cancelled": e.ToolCallCancelled(1),
    "timer 1 cleared": e.TimerCleared(1),
    "wait 1 cleared": e.SignalWaitCleared(1),
    "cancel requested (limit): cpu": e.CancelRequested("limit", limit="cpu"),
    "failed at line 3: E: m": e.FailRun(e.ScriptError("E", "m", line=3)),
    "cancelled: ttl": e.CancelRun("ttl"),
    "aborted: limit cpu, used 2 of 1": e.RunAborted("cpu", 1, 2),
}


@pytest.mark.parametrize("told", OTHERS)
def test_the_other_entries_told(told: str) -> None:
    assert list(timeline(journal(run_started(), OTHERS[told])))[-1].endswith("  " + told)


def test_long_and_absent_values_are_shortened() -> None:
    large = value_of("x" * 70_000)
    told = list(timeline(journal(run_started(input=value_of("é" * 500)), e.CompleteRun(large))))
    assert told[0].endswith('started with "' + "é" * 119 + "…")
    assert told[1].endswith(f"completed with <70002 bytes, {large.sha256[:12]}>")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "+0.000s"), (59_999, "+59.999s"), (200_000, "+3m20s"), (7_260_000, "+2h1m"), (187_200_000, "+2d4h")],
)
def test_elapsed(ms: int, text: str) -> None:
    assert elapsed(ms) == text


SOURCE = "one\ntwo\r\n\tconst x = '😀' + y;\nfour\n" + "\n".join(f"line {n}" for n in range(5, 12))


def test_a_frame_has_two_lines_of_context_and_a_caret() -> None:
    assert code_frame(SOURCE, 3, 19) == (
        "  1 | one\n  2 | two\n> 3 | \tconst x = '😀' + y;\n    | \t                ^\n  4 | four\n  5 | line 5"
    )
    assert code_frame(SOURCE, 11, 1) == "   9 | line 9\n  10 | line 10\n> 11 | line 11\n     | ^"
    assert code_frame(SOURCE, 1, 2).startswith("> 1 | one\n    |  ^")


@pytest.mark.parametrize("line", [0, 12, -1])
def test_there_is_no_frame_outside_the_source(line: int) -> None:
    assert code_frame(SOURCE, line, 1) == ""


def test_a_very_long_line_is_cut() -> None:
    assert max(map(len, code_frame("x" * 10_000, 1, 9_000).split("\n"))) < 200
