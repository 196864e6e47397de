"""The fold as transcripts: entries in, state out; and every (state, entry type) pair reached or refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import TYPE_NAMES, TYPE_OF
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import RunId, Seq, TimeMs
from sandbox.journal.state import RunState, apply, delivery_order, fold
from tests.fixtures.entries import call, failure, journal, result, run_started, signal, timer

START = run_started()
DONE = e.CompleteRun(value_of("ok"))
CANCEL = e.CancelRequested("user")
LIMIT = e.CancelRequested("limit", None, None, "cpu", 5000, 5001, Seq(0))


def wait(
    number: int, name: str = "go", timer_number: int | None = None, *, harness: bool = False
) -> e.SignalAwaited:
    return e.SignalAwaited(number, name, timer_number, "harness" if harness else None)


def test_a_run_from_start_to_end() -> None:
    entries = journal(
        START, call(1), call(2), result(2), result(1), timer(1, fire_at=5000), wait(1),
        e.TimerFired(1), (e.Log("info", ["é"]), 7), signal("go"), call(3, "z"), failure(3), DONE,
    )  # fmt: skip
    state = fold(entries)
    assert (state.status, state.end, state.entries) == ("completed", entries[-1], 13)
    assert (state.calls_made, state.timers_made, state.waits_made, state.log_bytes) == (3, 1, 1, 6)
    assert not (state.calls or state.timers or state.waits or state.kept)
    before_end = fold(entries[:-2])
    assert set(before_end.calls) == {3}
    assert before_end.calls[3].tool == "z"
    assert before_end.time == entries[9].time


def test_every_prefix_of_a_journal_folds() -> None:
    entries = journal(
        START, call(1), timer(1), wait(1), result(1), signal("go"), (e.TimerCleared(1), 5), CANCEL
    )
    seen = [fold(entries[:length]) for length in range(len(entries) + 1)]
    assert [len(state.calls) + len(state.timers) + len(state.waits) for state in seen] == [
        0,
        0,
        1,
        2,
        3,
        2,
        1,
        0,
        0,
    ]


def test_a_command_takes_effect_before_later_events() -> None:
    entries = journal(START, timer(1), signal("other"), (e.TimerFired(1)), (e.TimerCleared(1), 2), wait(1))
    order = [entry.seq for entry in delivery_order(entries)]
    assert order == [0, 1, 2, 4, 3, 5]
    assert fold(entries).timers == {}


def test_signals_are_kept_and_matched_first_come_first_served() -> None:
    state = fold(journal(START, signal("go", id="1"), signal("go", id="2"), signal("no", id="3"), wait(1)))
    assert [kept.id for kept in state.kept] == ["2", "3"]
    assert not state.waits
    state = fold(journal(START, wait(1), wait(2), wait(3, "no"), signal("go", id="1")))
    assert list(state.waits) == [2, 3]


def test_a_signal_sent_during_the_activation_that_awaits_it_is_taken_at_delivery() -> None:
    # The event is recorded before the command, and delivered after it.
    state = fold(journal(START, signal("go"), (wait(1), 0)))
    assert not state.waits
    assert not state.kept


@pytest.mark.parametrize(
    ("kind", "taken"), [("key", True), ("member", True), ("token", False), ("run", False)]
)
def test_from_harness_takes_only_signals_of_keys_and_members(kind: str, *, taken: bool) -> None:
    for steps in (
        [wait(1, harness=True), signal("go", kind=kind)],
        [signal("go", kind=kind), wait(1, harness=True)],
    ):
        state = fold(journal(START, *steps))
        assert (not state.waits) == taken
        assert (not state.kept) == taken


def test_a_signal_that_the_harness_wait_refuses_goes_to_the_next_wait() -> None:
    state = fold(journal(START, wait(1, harness=True), wait(2), signal("go", kind="token")))
    assert list(state.waits) == [1]


def test_a_fired_timeout_ends_its_wait_and_a_winning_signal_clears_it() -> None:
    timeout = timer(1, why="signal_timeout")
    assert not fold(
        journal(START, timeout, wait(1, timer_number=1), wait(2), e.TimerFired(1))
    ).waits.keys() - {2}
    won = fold(journal(START, timeout, wait(1, timer_number=1), signal("go"), e.TimerCleared(1)))
    assert not won.waits
    assert not won.timers


def test_a_firing_recorded_before_its_timer_was_cleared_is_a_no_op() -> None:
    steps = [START, timer(1), call(1), result(1), e.TimerFired(1), (e.TimerCleared(1), 3)]
    assert not fold(journal(*steps)).timers
    with pytest.raises(ImpossibleEntry, match="not pending"):
        fold(journal(*steps, e.TimerFired(1)))


def test_a_cancelled_call_is_pending_until_its_outcome() -> None:
    steps = [START, call(1), signal("x"), e.ToolCallCancelled(1)]
    state = fold(journal(*steps))
    assert state.calls[1].stopping
    assert not fold(journal(*steps, failure(1, "CancelledError", attempts=0))).calls
    # The outcome came first, undelivered.
    raced = journal(START, call(1), signal("x"), result(1), (e.ToolCallCancelled(1), 2))
    assert not fold(raced).calls


def test_cancel_rejects_timers_and_waits_and_keeps_calls() -> None:
    steps = [START, call(1), timer(1), wait(1), CANCEL]
    state = fold(journal(*steps))
    assert (state.cancelling, state.status) == ("user", "active")
    assert (list(state.calls), state.timers, state.waits) == ([1], {}, {})
    done = fold(journal(*steps, call(2, "cleanup"), result(2), failure(1), e.CancelRun("user")))
    assert done.status == "cancelled"


def test_main_that_settled_before_the_cancel_decides_the_end() -> None:
    assert fold(journal(START, call(1), CANCEL, failure(1), (DONE, 0))).status == "completed"
    failed = e.FailRun(e.ScriptError("Error", "no"))
    assert fold(journal(START, call(1), CANCEL, failure(1), (failed, 0))).status == "failed"


def test_a_gated_call_has_no_outcome_before_its_approval() -> None:
    gated = call(1, approval=True)
    approved = e.ApprovalDecided(1, "approved", None, e.Actor("member", "m"))
    denied = replace(approved, decision="denied")
    assert not fold(journal(START, gated, approved, result(1))).calls
    assert not fold(journal(START, gated, denied, failure(1, "ApprovalDeniedError", attempts=0))).calls
    for steps in (
        [gated, result(1)],
        [gated, denied, result(1)],
        [gated, denied, approved],
        [call(1), approved],
    ):
        with pytest.raises(ImpossibleEntry):
            fold(journal(START, *steps))


def test_a_fork_knows_that_an_approved_call_of_its_parent_was_lost() -> None:
    gated = call(1, approval=True)
    lost = e.ToolCallCompleted(1, None, e.ToolFailure("OutcomeUnknownError", None, "?"), 1)
    line = e.Origin(RunId("r"), {}, TimeMs(9_000), None)
    forked = run_started(parent=e.Parent(RunId("r"), "fork"), forked_at=TimeMs(5), origin=line)
    assert not fold(journal(forked, gated, lost)).calls
    with pytest.raises(ImpossibleEntry, match="not approved"):
        fold(journal(START, gated, lost))
    with pytest.raises(ImpossibleEntry, match="not approved"):
        fold(journal(forked, gated, result(1)))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([START, call(2)], "number"),
        ([START, timer(2)], "number"),
        ([START, wait(0)], "number"),
        ([START, call(1), result(1), result(1)], "call is not pending"),
        ([START, call(1), result(1, attempts=0)], "has no result"),
        ([START, call(1), e.ToolCallCompleted(1, None, None, 1)], "exactly one"),
        ([START, call(1), e.ToolCallCancelled(1), e.ToolCallCancelled(1)], "cancelled already"),
        ([START, call(1), DONE], "call in flight"),
        ([START, call(1), e.FailRun(e.ScriptError("E", "m"))], "call in flight"),
        ([START, DONE, signal("go")], "follows the end"),
        ([START, signal("go"), signal("go")], "received already"),
        ([START, CANCEL, CANCEL], "cancelled already"),
        ([START, e.CancelRun("user")], "nobody cancelled"),
        ([START, LIMIT, e.CancelRun("limit")], "nobody cancelled"),
        ([START, LIMIT, DONE], "a limit had ended"),
        ([START, LIMIT, call(1)], "does nothing more"),
        ([START, CANCEL, e.RunAborted("cpu", 1, 2)], "no limit"),
        ([START, signal("go"), (call(1), 0), (timer(1), 1), (call(2), 0)], "cause is out of order"),
        ([START, call(1, approval=True), e.ApprovalDecided(1, "expired", None, None), (timer(1), 2)], "no event"),
        ([START, START], "first entry"),
        ([CANCEL], "first entry"),
    ],
)  # fmt: skip
def test_what_no_run_can_have_done_is_impossible(steps: list[Any], reason: str) -> None:
    entries = journal(*steps) if steps[0] is START else [_first(steps[0])]
    with pytest.raises(ImpossibleEntry, match=reason):
        fold(entries)


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: entries[:2] + entries[3:],
        lambda entries: [*entries[:2], entries[3], entries[2]],
        lambda entries: [*entries[:2], replace(entries[2], cause=None), *entries[3:]],
        lambda entries: [*entries[:2], replace(entries[2], time=TimeMs(99)), *entries[3:]],
        lambda entries: [*entries[:3], replace(entries[3], time=TimeMs(-1))],
        lambda entries: [*entries[:3], replace(entries[3], cause=Seq(0))],
        lambda entries: [*entries[:4], replace(entries[4], time=TimeMs(1999))],
    ],
)
def test_places_and_times_are_checked(change: Any) -> None:
    entries = journal(START, call(1), timer(1, fire_at=2000), result(1), e.TimerFired(1))
    fold(entries)
    with pytest.raises(ImpossibleEntry):
        fold(change(entries))


# -- Transition coverage: five states, each with something of each kind pending where that can be

_PENDING = [START, call(1), call(2, approval=True), timer(1), wait(1)]
_STATES: dict[str, list[Any]] = {
    "new": [],
    "active": _PENDING,
    "cancelling": [*_PENDING, CANCEL],
    "aborting": [*_PENDING, LIMIT],
    "idle": [START],
    "cancelling idle": [START, CANCEL],
    "aborting idle": [START, LIMIT],
    "ended": [START, DONE],
}
_EXAMPLES: dict[EntryType, Any] = {
    TYPE_OF[type(body)]: body
    for body in [
        START, call(3), e.ToolCallCancelled(1), e.ApprovalDecided(2, "denied", None, None), result(1), timer(2),
        e.TimerFired(1), e.TimerCleared(1), wait(2), e.SignalWaitCleared(1), signal("x"), e.Log("log", []),
        CANCEL, DONE, e.FailRun(e.ScriptError("E", "m")), e.CancelRun("user"), e.RunAborted("cpu", 1, 2),
    ]
}  # fmt: skip
_LEGAL = {
    "new": "run_started",
    "active": "schedule_tool_call tool_call_cancelled approval_decided tool_call_completed start_timer timer_fired "
    "timer_cleared signal_awaited signal_wait_cleared signal_received log cancel_requested",
    "cancelling": "schedule_tool_call tool_call_cancelled approval_decided tool_call_completed timer_fired "
    "signal_received log",
    "aborting": "approval_decided tool_call_completed timer_fired signal_received",
    "idle": "start_timer signal_awaited signal_received log cancel_requested complete_run fail_run",
    "cancelling idle": "signal_received log complete_run fail_run cancel_run",
    "aborting idle": "signal_received run_aborted",
    "ended": "",
}


@pytest.mark.parametrize("type_", EntryType, ids=lambda type_: TYPE_NAMES[type_])
@pytest.mark.parametrize("name", _STATES)
def test_each_pair_of_state_and_entry_is_reached_or_refused(name: str, type_: EntryType) -> None:
    body = _EXAMPLES[type_]
    if "idle" in name:  # nothing was made before: numbers begin at 1
        body = {EntryType.START_TIMER: timer(1), EntryType.SIGNAL_AWAITED: wait(1)}.get(type_, body)
    entries = journal(*_STATES[name], body, tick_ms=5000) if name != "new" else [_first(body)]
    state = RunState()
    for entry in delivery_order(entries[:-1]):
        apply(state, entry)
    if TYPE_NAMES[type_] in _LEGAL[name].split():
        apply(state, entries[-1])
        assert state.entries == len(entries)
    else:
        with pytest.raises(ImpossibleEntry):
            apply(state, entries[-1])


def _first(body: Any) -> e.Entry:
    cause = Seq(0) if TYPE_OF[type(body)] in e.COMMAND_TYPES else None
    return e.Entry(Seq(0), TimeMs(0), body, cause)


def test_an_operator_may_abandon_a_run_that_nobody_cancelled() -> None:
    assert fold(journal(START, e.RunAborted("abandoned", None, None))).status == "aborted"


def test_the_table_of_transitions_is_complete(record_property: Callable[[str, object], None]) -> None:
    """Every pair is one of the two above; the table is printed when all tests have run."""
    width = max(map(len, TYPE_NAMES.values()))
    lines = ["  ".join([" " * width, *_STATES])]
    for type_ in EntryType:
        cells = ["reached" if TYPE_NAMES[type_] in _LEGAL[name].split() else "refused" for name in _STATES]
        shown = [cell.ljust(len(name)) for cell, name in zip(cells, _STATES, strict=True)]
        lines.append("  ".join([TYPE_NAMES[type_].ljust(width), *shown]))
        assert "reached" in cells, f"no state takes {TYPE_NAMES[type_]}"
    assert set(_LEGAL) == set(_STATES)
    assert set(_EXAMPLES) == set(EntryType)
    record_property("printed", "\n".join(["Each state of a run, each entry:", *lines]))
