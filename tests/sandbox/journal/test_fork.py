"""What a fork reuses while its script does what the parent's did, and at the first difference."""

from typing import Any

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import TYPE_OF, encode_body
from sandbox.journal.fork import DROPPED_SHOWN_MAX, Match, Matching
from sandbox.journal.ids import Seq
from tests.fixtures.entries import call, failure, journal, result, run_started, signal, timer
from tests.fixtures.forks import (
    PARENT,
    SEQUENCE,
    SEQUENCE_SCRIPT,
    bodies,
    done,
    failed,
    fork,
    log,
    made_at,
    stored,
)

# -- The same script


def test_an_unchanged_script_reuses_everything() -> None:
    forked = fork(SEQUENCE, SEQUENCE_SCRIPT)
    assert [(x.call, x.reused) for x in forked.delivered] == [(1, 2), (2, 4)]
    assert forked.times == [SEQUENCE[2].time, SEQUENCE[4].time]
    assert forked.sent == 0
    assert forked.report == {
        "reused": {"calls": 2, "signals": 0, "timers": 0},
        "dropped": [],
        "diverged_at": None,
    }


def test_a_reused_outcome_keeps_attempts_and_begin_and_names_the_parents_seq() -> None:
    parent = journal(run_started(), call(1), failure(1, attempts=3), done())
    [reused] = fork(parent, made_at((None, [call(1)]))).delivered
    assert (reused.attempts, reused.begun_at, reused.reused) == (3, 1, 2)
    assert reused.error.name == "ToolError"


def test_an_outcome_that_was_reused_before_names_its_seq_in_the_direct_parent() -> None:
    entries = journal(
        run_started(), log("x"), call(1), e.ToolCallCompleted(1, value_of(1), None, 1, None, Seq(9))
    )
    [reused] = fork(entries, made_at((None, [call(1)]))).delivered
    assert reused.reused == 3


def test_logs_clears_cancels_and_callsites_are_not_compared() -> None:
    script = made_at(
        (None, [log("new"), call(1, "a"), timer(1, 5)]), (1, [log("more"), e.TimerCleared(1), call(2, "b")])
    )
    parent = journal(
        run_started(),
        call(1, "a"),
        timer(1, 5, fire_at=99_999),
        result(1, "A"),
        call(2, "b"),
        result(2),
        done(),
    )
    forked = fork(parent, script)
    assert forked.report["diverged_at"] is None
    assert forked.report["reused"]["calls"] == 2
    assert forked.sent == 3  # the logs and the clear


def test_causes_are_not_compared_and_what_is_not_made_yet_is_held_until_it_is() -> None:
    """The fork makes at the first outcome what the parent made at its start: the second outcome waits for that."""
    parent = journal(run_started(), call(1, "a"), call(2, "b"), result(2, "B"), result(1, "A"), done())
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [call(2, "b")])))
    assert [(x.call, x.reused) for x in forked.delivered] == [(1, 4), (2, 3)]
    assert forked.sent == 0


def test_of_several_held_outcomes_the_parents_order_is_kept() -> None:
    parent = journal(
        run_started(), call(1, "a"), call(2, "b"), call(3, "c"), result(3), result(2), result(1), done()
    )
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [call(2, "b"), call(3, "c")])))
    assert [x.call for x in forked.delivered] == [1, 3, 2]


# -- The first difference


def test_of_ten_parallel_calls_with_one_changed_only_that_one_is_made() -> None:
    calls = [call(n, "t", {"n": n}) for n in range(1, 11)]
    parent = journal(run_started(), *calls, *(result(n, n) for n in (3, 1, 5, 2, 4, 10, 9, 8, 7, 6)), done())
    changed = [*calls]
    changed[4] = call(5, "t", {"n": "five"})
    forked = fork(parent, made_at((None, changed)))
    assert [match is None for match in forked.matches] == [n == 4 for n in range(10)]
    assert [x.call for x in forked.delivered] == []
    assert [x.call for x in forked.rest] == [3, 1, 2, 4, 10, 9, 8, 7, 6]
    assert forked.report == {
        "reused": {"calls": 9, "signals": 0, "timers": 0},
        "dropped": [],
        "diverged_at": {
            "seq": 5,
            "line": 7,
            "expected": {"type": "schedule_tool_call", "tool": "t", "args": {"n": 5}},
            "actual": {"type": "schedule_tool_call", "tool": "t", "args": {"n": "five"}},
        },
    }


def test_a_call_put_in_front_of_the_others_renumbers_them_and_sends_only_itself() -> None:
    parent = journal(run_started(), call(1, "a"), call(2, "b"), result(1, "A"), result(2, "B"), done())
    forked = fork(parent, made_at((None, [call(1, "new"), call(2, "a"), call(3, "b")])))
    assert [match is None for match in forked.matches] == [True, False, False]
    assert [(x.call, x.reused, x.result.text) for x in forked.rest] == [(2, 3, b'"A"'), (3, 4, b'"B"')]


def test_a_call_taken_out_sends_none_of_the_others() -> None:
    parent = journal(run_started(), call(1, "a"), call(2, "b"), result(1, "A"), result(2, "B"), done())
    forked = fork(parent, made_at((None, [call(1, "b")])))
    assert forked.sent == 0
    assert [(x.call, x.reused) for x in forked.rest] == [(1, 4)]
    assert forked.report["diverged_at"]["seq"] == 1


def test_equal_calls_take_the_parents_in_order_and_each_once() -> None:
    parent = journal(
        run_started(), call(1, "a"), call(2, "b"), call(3, "b"), result(2, 2), result(3, 3), result(1), done()
    )
    forked = fork(parent, made_at((None, [call(1, "x"), call(2, "b"), call(3, "b"), call(4, "b")])))
    assert [match and match.seq for match in forked.matches] == [None, 2, 3, None]


def test_only_calls_of_the_event_that_made_the_differing_command_are_matched() -> None:
    """A call that the parent made later is made anew, and so is everything after that event."""
    parent = journal(
        run_started(), call(1, "a"), result(1), call(2, "b"), result(2), call(3, "c"), result(3), done()
    )
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [call(2, "x"), call(3, "c")])))
    assert [match and match.seq for match in forked.matches] == [1, None, None]
    assert len(forked.delivered) == 1


def test_after_the_event_of_the_difference_matching_has_ended_for_good() -> None:
    parent = journal(
        run_started(), call(1, "a"), call(2, "b"), result(1), call(3, "c"), result(2), result(3), done()
    )
    matching = Matching(PARENT, stored(parent))
    for body in (call(1, "x"), call(2, "b")):
        matching.made(TYPE_OF[type(body)], encode_body(body))
    matching.settle()
    assert matching.over
    assert matching.next() is None
    assert matching.made(TYPE_OF[e.ScheduleToolCall], encode_body(call(3, "a"))) is None
    assert [x.call for x in bodies(matching.rest())] == [2]


def test_timers_and_waits_after_a_difference_are_the_forks_own() -> None:
    parent = journal(run_started(), call(1, "a"), timer(1, 5), e.SignalAwaited(1, "go"), result(1), done())
    forked = fork(parent, made_at((None, [call(1, "x"), timer(1, 5), e.SignalAwaited(1, "go")])))
    assert forked.matches == [None, None, None]


def test_more_than_the_parent_made_is_a_difference_from_its_end() -> None:
    parent = journal(run_started(), call(1, "a"), failure(1), failed())
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [call(2, "fallback")])))
    assert forked.report["diverged_at"]["seq"] == 3
    assert forked.report["diverged_at"]["expected"] == {
        "type": "fail_run",
        "name": "ToolError",
        "message": "no",
    }
    assert forked.report["diverged_at"]["actual"]["tool"] == "fallback"


def test_each_compared_field_makes_a_difference() -> None:
    parent = journal(
        run_started(), timer(1, 5), timer(2, 9, "signal_timeout"), e.SignalAwaited(1, "go", 2), e.SignalAwaited(2, "x"),
        signal("go"), done(),
    )  # fmt: skip
    same = [timer(1, 5), timer(2, 9, "signal_timeout"), e.SignalAwaited(1, "go", 2), e.SignalAwaited(2, "x")]
    assert fork(parent, made_at((None, same))).report["diverged_at"] is None
    others: list[tuple[int, Any]] = [
        (0, timer(1, 6)),
        (0, timer(1, 5, "timeout")),
        (1, timer(2, 8, "signal_timeout")),
        (2, e.SignalAwaited(1, "stop", 2)),
        (2, e.SignalAwaited(1, "go", None)),
        (3, e.SignalAwaited(2, "x", None, "harness")),
        (3, e.SignalAwaited(2, "x", 2)),
    ]
    for place, other in others:
        changed = [*same]
        changed[place] = other
        found = fork(parent, made_at((None, changed))).report["diverged_at"]
        assert found["seq"] == place + 1, other


# -- Timers and signals


def test_timers_and_signals_are_reused_with_the_parents_times() -> None:
    parent = journal(
        run_started(),
        timer(1, 1000),
        e.TimerFired(1),
        e.SignalAwaited(1, "go"),
        signal("go", 5, "s1"),
        done(),
    )
    forked = fork(parent, made_at((None, [timer(1, 1000)]), ("t1", [e.SignalAwaited(1, "go")])))
    assert forked.times == [parent[2].time, parent[4].time]
    assert [x.reused for x in forked.delivered] == [2, 4]
    assert forked.report["reused"] == {"calls": 0, "signals": 1, "timers": 1}


def test_a_matched_timer_keeps_its_fire_at() -> None:
    parent = journal(run_started(), timer(1, 1000, fire_at=777_000), call(1), result(1), done())
    forked = fork(parent, made_at((None, [timer(1, 1000), call(1)])))
    assert forked.matches[0] == Match(Seq(1), fire_at=parent[1].body.fire_at)  # type: ignore[union-attr]


def test_a_firing_of_a_timer_that_the_fork_has_cleared_is_passed_over() -> None:
    """It was recorded before the parent's clear and said nothing there either."""
    parent = journal(
        run_started(), timer(1, 5, fire_at=5), call(1, "a"), result(1), e.TimerFired(1), (e.TimerCleared(1), 3), call(2), done()
    )  # fmt: skip
    forked = fork(parent, made_at((None, [timer(1, 5), call(1, "a")]), (1, [e.TimerCleared(1)])))
    assert [type(x) for x in forked.delivered] == [e.ToolCallCompleted]
    assert forked.report["dropped"] == []


def test_a_timer_made_and_cleared_at_once_does_not_fire_though_its_firing_was_held() -> None:
    parent = journal(run_started(), call(1, "a"), timer(1, 5, fire_at=5), e.TimerFired(1), result(1), done())
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [timer(1, 5), e.TimerCleared(1)])))
    assert [type(x) for x in forked.delivered] == [e.ToolCallCompleted]


def test_later_signals_and_firings_are_dropped_and_listed() -> None:
    parent = journal(
        run_started(),
        call(1, "a"),
        timer(1, 5, fire_at=5),
        result(1),
        signal("go", 1, "s1"),
        e.TimerFired(1),
        done(),
    )
    forked = fork(parent, made_at((None, [call(1, "x"), timer(1, 5)])))
    assert forked.report["dropped"] == [
        {"seq": 4, "type": "signal_received", "name": "go", "id": "s1"},
        {"seq": 5, "type": "timer_fired", "timer": 1},
    ]
    assert forked.delivered == []


def test_the_list_of_what_is_dropped_is_cut() -> None:
    many = [signal("go", 1, f"s{n}") for n in range(DROPPED_SHOWN_MAX + 5)]
    parent = journal(run_started(), call(1, "a"), *many, e.SignalAwaited(1, "go"))
    forked = fork(parent, made_at((None, [call(1, "x")])))
    assert len(forked.report["dropped"]) == DROPPED_SHOWN_MAX
