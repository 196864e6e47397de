"""What a person reads of a journal, as whole texts."""

import re

import pytest
from rewind._style import Style, clip
from rewind.journal_text import JournalText, relative_time, size_text, took_text

from tests.sdk_python.journals import EVERY_KIND, entry, value

GOLDEN = """\
  seq      time   line  what happened
    0    0.000s         run started  input {"repo":"acme/site"}
    1    0.000s     L5  → github.list_issues #1 {"state":"open"}
    2    0.000s     L6  → pay #2 (waits for approval) {}
    3    0.017s         ← github.list_issues #1 ok in 17ms {"issues":[]}
    4    0.900s         ✗ denied pay #2 by ada: too much
    5    0.900s         ← pay #2 withdrawn: denied by ada
    6    0.900s     L8  → slow #3 null
    7    0.900s     L9  ✗ slow #3 aborted by the script
    8  1m 01.9s         ← slow #3 ToolError timeout in 1m 1s: no answer in 60 s (2 attempts)
    9  1m 01.9s    L10  warn: slow {"ms":61000}
   10  1m 01.9s    L11  sleep #1 10d, until 2026-10-01 14:14:21 UTC
   11   10d 00h         sleep #1 is over
   12   10d 00h    L12  signal timeout #2 1h, until 2026-10-01 15:14:21 UTC
   13   10d 00h    L12  waits for signal "decision" with a timeout
   14   10d 00h         ← signal "decision" by ada {"yes":true}
   15   10d 00h    L12  signal timeout #2 cleared
   16   10d 00h    L13  waits for signal "more" from the harness
   17   10d 00h    L13  no longer waits for signal "more"
   18   10d 00h         cancel requested (user) by ada
   19   10d 00h         run completed  output (1.2 MiB, sha256 cdcdcdcdcdcd…)
   20   10d 00h         run failed  TypeError: x is undefined (line 3, column 7)
                        > 3 | x.y
                            |   ^
   21   10d 00h         run cancelled (user)
   22   10d 00h         run aborted: cpu, 5003 of 5000 allowed
   23   10d 00h         run_cured {"by":"magic"}
"""


def printed(entries: list[dict[str, object]], style: Style) -> str:
    text = JournalText(style)
    return "".join(f"{line}\n" for line in [text.header(), *map(text.line, entries)])


def test_every_kind_of_entry() -> None:
    assert printed(EVERY_KIND, Style(width=120)) == GOLDEN


def test_colour_changes_no_text() -> None:
    coloured = printed(EVERY_KIND, Style(color=True, width=120))
    assert "\x1b[32m" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == GOLDEN


def test_a_stream_without_utf8() -> None:
    text = printed(EVERY_KIND, Style(width=120, unicode=False))
    assert text.isascii()
    assert "    1    0.000s     L5  > github.list_issues #1" in text


def test_long_values_are_cut_to_the_width_and_show_their_size() -> None:
    entries = [entry(0, "run_started", 0, input=value(list(range(5000)), 23_890))]
    line = printed(entries, Style(width=80)).split("\n")[1]
    assert line == "    0    0.000s         run started  input [0,1,2,3,4,5,6,7,8,9,10,11… 23.3 KiB"
    assert len(line) <= 80


def test_a_redacted_value() -> None:
    redacted = {"sha256": "ab" * 32, "bytes": 2_000, "redacted": True}
    assert "input (redacted, 2.0 KiB)" in printed([entry(0, "run_started", 0, input=redacted)], Style())


@pytest.mark.parametrize("color", [True, False])
def test_what_a_script_wrote_cannot_steer_the_terminal(*, color: bool) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07\r\n\u202egnp.exe"
    entries = [
        entry(0, "log", 0, 1, level="log", values=[evil]),
        entry(1, "run_started", 0, input=value({"a": evil})),
        entry(2, "fail_run", 0, error={"name": evil, "message": evil, "frame": evil}),
    ]
    text = printed(entries, Style(color=color))
    without_paint = re.sub("\x1b\\[(1|2|31|32|33|36|0)m", "", text)
    assert not set(without_paint) & {"\x1b", "\x07", "\r", "\u202e"}


def test_an_outcome_whose_call_was_not_seen() -> None:
    text = printed([entry(7, "tool_call_completed", 0, call=9, result=value(1, 1), attempts=1)], Style())
    assert "← call #9 ok 1" in text


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0.000s"),
        (59_999, "59.999s"),
        (60_000, "1m 00.0s"),
        (3_599_000, "59m 59.0s"),
        (7_384_000, "2h 03m"),
        (90_000_000, "1d 01h"),
    ],
)
def test_relative_times(ms: int, shown: str) -> None:
    assert relative_time(ms) == shown
    assert len(shown) <= 9


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0ms"),
        (17, "17ms"),
        (2_000, "2s"),
        (2_345, "2.35s"),
        (200_000, "3m 20s"),
        (3_600_000, "1h"),
        (864_000_000, "10d"),
    ],
)
def test_durations(ms: int, shown: str) -> None:
    assert took_text(ms) == shown


def test_sizes_and_cuts() -> None:
    assert [size_text(n) for n in (5, 2048, 3_000_000)] == ["5 B", "2.0 KiB", "2.9 MiB"]
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefg", 6) == "abcde…"
