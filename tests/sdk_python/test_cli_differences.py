"""What a script does otherwise, in words: for people who fork a run and who replay one."""

from typing import Any

import pytest
from rewind._cli_differences import divergence_text, step_text


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (
            {"type": "schedule_tool_call", "tool": "pay", "args": {"n": "x" * 80}},
            f'calls pay {{"n":"{"x" * 53}…',
        ),
        ({"type": "start_timer", "why": "sleep", "delay": 864_000_000}, "sleeps 10d"),
        ({"type": "start_timer", "why": "timeout", "delay": 1500}, "setTimeout of 1.5s"),
        ({"type": "start_timer", "why": "signal_timeout", "delay": 60_000}, "signal timeout of 1m"),
        ({"type": "signal_awaited", "name": "go", "timeout": None, "from": None}, 'waits for signal "go"'),
        ({"type": "fail_run", "name": "Error", "message": "no"}, "fails: Error: no"),
        ({"type": "complete_run"}, "main returns"),
        ({"type": "cancel_requested", "reason": "ttl"}, "is cancelled (ttl)"),
        ({"type": "something_new", "a": 1}, '{"type":"something_new","a":1}'),
    ],
)
def test_a_step_is_told_in_words(step: dict[str, Any], shown: str) -> None:
    assert step_text(step) == shown


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (
            {
                "seq": 7,
                "type": "fail_run",
                "field": "type",
                "expected": "fail_run",
                "actual": "schedule_tool_call",
                "line": 5,
                "recorded_line": None,
            },
            "diverged at entry 7 (fail_run): there was a failure, now there is a call (line 5)",
        ),
        (
            {
                "seq": 3,
                "type": "start_timer",
                "field": "type",
                "expected": {"type": "start_timer", "delay": 1},
                "actual": None,
                "line": None,
                "recorded_line": 4,
            },
            "diverged at entry 3 (start_timer): there was a timer, now there is nothing more (recorded at line 4)",
        ),
        (
            {
                "seq": None,
                "type": None,
                "field": "delay",
                "expected": 1,
                "actual": 2,
                "line": 4,
                "recorded_line": 4,
            },
            "diverged after the last entry: delay was 1, is now 2 (line 4)",
        ),
    ],
)
def test_a_divergence_names_both_sides_and_the_lines_that_are_known(
    found: dict[str, Any], shown: str
) -> None:
    assert divergence_text(found) == shown
