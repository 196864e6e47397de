"""What a fork reuses of a parent that is cut at a place, or that did not complete; and of any history."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.fork import Fate, Match, idempotency_key
from sandbox.journal.ids import Seq
from tests.fixtures.entries import call, failure, journal, result, run_started, signal
from tests.fixtures.forks import (
    PARENT,
    SEQUENCE,
    SEQUENCE_SCRIPT,
    Script,
    done,
    failed,
    fork,
    made_at,
)

# -- at


FAILED = journal(run_started(), call(1, "a"), result(1, "A"), call(2, "b"), failure(2), failed())


def test_at_a_failing_outcome_its_call_is_made_anew_with_a_new_key() -> None:
    forked = fork(FAILED, made_at((None, [call(1, "a")]), (1, [call(2, "b")])), at=4)
    assert [x.call for x in forked.delivered] == [1]
    assert forked.rest == []
    assert forked.matches[1] == Match(Seq(3), fate=Fate.ANEW)
    assert forked.report["diverged_at"] is None


def test_at_an_outcome_whose_call_had_an_inherited_key_gives_it_up() -> None:
    kept = e.ScheduleToolCall(1, "a", value_of(None), e.ToolPolicy(), "other-run/1")
    parent = journal(run_started(), kept, failure(1), failed())
    [match] = fork(parent, made_at((None, [call(1, "a")])), at=2).matches
    assert match == Match(Seq(1), fate=Fate.ANEW)


def test_outcomes_above_at_of_matched_calls_are_reused() -> None:
    parent = journal(run_started(), call(1, "a"), call(2, "b"), failure(1), result(2), failed())
    forked = fork(parent, made_at((None, [call(1, "a"), call(2, "b")])), at=3)
    assert forked.delivered == []
    assert [(x.call, x.reused) for x in forked.rest] == [(2, 4)]
    assert forked.matches[0] is not None
    assert forked.matches[0].fate is Fate.ANEW


def test_commands_recorded_above_at_belong_to_the_events_that_caused_them() -> None:
    """The failing outcome arrived while the first event was at work: what that event made is matched."""
    parent = journal(
        run_started(),
        call(1, "a"),
        call(2, "b"),
        result(1),
        failure(2),
        (call(3, "c"), 3),
        result(3),
        failed(),
    )
    script = made_at((None, [call(1, "a"), call(2, "b")]), (1, [call(3, "c")]))
    forked = fork(parent, script, at=4)
    assert [match and match.fate for match in forked.matches] == [Fate.REUSED, Fate.ANEW, Fate.REUSED]
    assert [x.call for x in forked.rest] == [3]


def test_at_a_command_it_and_what_follows_are_made_anew() -> None:
    calls = [call(n, "t", n) for n in (1, 2, 3)]
    parent = journal(run_started(), *calls, result(1), result(2), result(3), done())
    forked = fork(parent, made_at((None, calls)), at=2)
    assert [match and match.seq for match in forked.matches] == [1, None, None]
    assert [x.call for x in forked.rest] == [1]
    assert forked.report["diverged_at"] is None


def test_at_the_start_nothing_is_reused() -> None:
    forked = fork(SEQUENCE, SEQUENCE_SCRIPT, at=0)
    assert (forked.delivered, forked.rest, forked.matches) == ([], [], [None])
    assert forked.report["diverged_at"] is None


def test_signals_above_at_are_dropped() -> None:
    parent = journal(
        run_started(), e.SignalAwaited(1, "go"), signal("go", 1, "s1"), signal("go", 2, "s2"), done()
    )
    forked = fork(parent, made_at((None, [e.SignalAwaited(1, "go")])), at=3)
    assert [x.id for x in forked.delivered] == ["s1"]
    assert [x["id"] for x in forked.report["dropped"]] == ["s2"]


# -- Parents that did not complete


def cancelled(*steps: Any) -> list[e.Entry]:
    return journal(run_started(), *steps)


def test_matching_ends_at_the_parents_cancel_and_outcomes_after_it_are_reused() -> None:
    parent = cancelled(
        call(1, "a"), call(2, "b"), result(1), e.CancelRequested("user"), call(3, "undo"), result(2), result(3),
        e.CancelRun("user"),
    )  # fmt: skip
    forked = fork(parent, made_at((None, [call(1, "a"), call(2, "b")]), (1, [])))
    assert [x.call for x in forked.delivered] == [1]
    assert [x.call for x in forked.rest] == [2]


def test_a_call_withdrawn_before_it_began_is_made_anew() -> None:
    parent = cancelled(
        call(1, "a"), e.CancelRequested("user"), failure(1, "CancelledError", attempts=0), e.CancelRun("user")
    )
    forked = fork(parent, made_at((None, [call(1, "a")])))
    assert forked.matches == [Match(Seq(1), fate=Fate.ANEW)]
    assert forked.rest == []


def test_a_refused_approval_is_an_outcome_like_any_other() -> None:
    """It has no attempts either, but nobody withdrew it: an unchanged script sees the refusal again."""
    gated = call(1, "a", approval=True)
    denied = failure(1, "ApprovalDeniedError", attempts=0)
    parent = journal(run_started(), gated, e.ApprovalDecided(1, "denied", None, None), denied, done())
    forked = fork(parent, made_at((None, [gated])))
    assert [x.error.name for x in forked.delivered] == ["ApprovalDeniedError"]


def test_a_call_lost_by_the_cancel_is_made_again_with_the_parents_key_if_it_may_be_repeated() -> None:
    again, unknown = call(1, "a", idempotent=True), call(2, "b")
    parent = cancelled(
        again, unknown, e.CancelRequested("user"), failure(1, "OutcomeUnknownError"),
        failure(2, "OutcomeUnknownError", attempts=2), e.CancelRun("user"),
    )  # fmt: skip
    forked = fork(parent, made_at((None, [again, unknown])))
    assert forked.matches[0] == Match(Seq(1), None, Fate.AGAIN, f"{PARENT}/1")
    assert forked.matches[1] == Match(Seq(2), None, Fate.UNKNOWN)
    [lost] = forked.rest
    assert (lost.call, lost.error.name, lost.attempts, lost.reused) == (2, "OutcomeUnknownError", 2, None)
    assert forked.report["reused"]["calls"] == 0


def test_an_unknown_outcome_that_the_script_saw_is_reused() -> None:
    parent = journal(run_started(), call(1), failure(1, "OutcomeUnknownError"), failed())
    assert [x.reused for x in fork(parent, made_at((None, [call(1)]))).delivered] == [2]


def test_a_key_once_inherited_stays_with_the_call_until_it_has_an_outcome() -> None:
    key = "00000000-0000-7000-8000-0000000000aa/4"
    kept = e.ScheduleToolCall(1, "a", value_of(None), e.ToolPolicy(idempotent=True), key)
    for name, attempts in (("CancelledError", 0), ("OutcomeUnknownError", 1)):
        parent = cancelled(
            kept, e.CancelRequested("user"), failure(1, name, attempts=attempts), e.CancelRun("user")
        )
        [match] = fork(parent, made_at((None, [call(1, "a", idempotent=True)]))).matches
        assert match is not None
        assert match.idempotency_key == key


def test_a_run_that_a_limit_ended_is_matched_up_to_the_event_that_exceeded_it() -> None:
    limit = e.CancelRequested("limit", limit="cpu", allowed=5000, used=5001, event=Seq(2))
    parent = cancelled(call(1, "a"), result(1), limit, e.RunAborted("cpu", 5000, 5001))
    forked = fork(parent, made_at((None, [call(1, "a")]), (1, [call(2, "b")])))
    assert [x.call for x in forked.delivered] == [1]
    assert forked.report["diverged_at"]["expected"] == {"type": "cancel_requested", "reason": "limit"}


# -- Keys


def test_the_key_of_a_call_is_its_own_unless_its_entry_has_another() -> None:
    own = encode_body(call(3, "a", {"idempotency_key": "no"}))
    assert idempotency_key(PARENT, 3, own) == f"{PARENT}/3"
    kept = encode_body(e.ScheduleToolCall(3, "a", value_of(None), e.ToolPolicy(), "k/1"))
    assert idempotency_key(PARENT, 3, kept) == "k/1"


# -- Any history


def chain(outcomes: Sequence[int]) -> tuple[list[e.Entry], Script]:
    """Three calls at the start, and one more at every outcome, in whatever order they come in."""
    steps: list[Any] = [run_started(), *(call(n, "t", n) for n in (1, 2, 3))]
    rows: list[tuple[Any, list[Any]]] = [(None, [call(n, "t", n) for n in (1, 2, 3)])]
    open_calls, made = [1, 2, 3], 3
    for pick in outcomes:
        number = open_calls.pop(pick % len(open_calls))
        made += 1
        steps += [result(number, number), call(made, "t", made)]
        rows.append((number, [call(made, "t", made)]))
        open_calls.append(made)
    steps += [result(number, number) for number in open_calls] + [done()]
    return journal(*steps), made_at(*rows)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12), st.data())
def test_whatever_the_order_and_the_place_each_call_has_one_fate(
    picks: list[int], data: st.DataObject
) -> None:
    parent, script = chain(picks)
    whole = fork(parent, script)
    assert whole.sent == 0
    assert [x.reused for x in whole.delivered] == [
        x.seq for x in parent if isinstance(x.body, e.ToolCallCompleted)
    ]

    at = data.draw(st.integers(0, len(parent) - 1))
    cut = fork(parent, script, at)
    reused = [x.call for x in cut.delivered + cut.rest]
    assert len(reused) == len(set(reused)), "an outcome is recorded once"
    assert all(x.reused < at for x in cut.delivered), "nothing at or above `at` is delivered by matching"
    matched = {
        number
        for number, match in enumerate(cut.matches, start=1)
        if match is not None and match.fate is Fate.REUSED
    }
    assert set(reused) == matched, "a call is reused or made, never both, never neither"
    assert cut.report["diverged_at"] is None


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12), st.data())
def test_one_changed_call_never_makes_another_be_sent_at_its_event(
    picks: list[int], data: st.DataObject
) -> None:
    parent, script = chain(picks)
    changed = data.draw(st.integers(1, 3 + len(picks)))

    def other(event: Any) -> Sequence[Any]:
        return [call(x.call, "t", "changed") if x.call == changed else x for x in script(event)]

    forked = fork(parent, other)
    number = [match is None for match in forked.matches].index(True) + 1
    assert number == changed
    assert forked.sent == 1
    assert forked.report["diverged_at"]["actual"]["args"] == "changed"
