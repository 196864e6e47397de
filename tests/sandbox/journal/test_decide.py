"""May it happen now? Each request against each kind of run."""

import pytest

from sandbox.journal.decide import (
    HISTORY_SIGNALS_MAX,
    Append,
    Decision,
    Refusal,
    Summary,
    decide_abort,
    decide_cancel,
    decide_commands,
    decide_deadline,
    decide_settle,
    decide_signal,
    event_time,
)
from sandbox.journal.ids import TimeMs

ACTIVE = Summary("active", cancelling=False, entries=10)
CANCELLING = Summary("active", cancelling=True, entries=10)
QUARANTINED = Summary("quarantined", cancelling=False, entries=10)
FULL = Summary("active", cancelling=False, entries=HISTORY_SIGNALS_MAX)
ENDED = [
    Summary(status, cancelling=False, entries=10)
    for status in ("completed", "failed", "cancelled", "aborted")
]


def refused(decision: Decision) -> str | None:
    return decision.code if isinstance(decision, Refusal) else None


@pytest.mark.parametrize("run", ENDED, ids=lambda run: run.status)
def test_nothing_is_appended_to_a_run_that_has_ended(run: Summary) -> None:
    decisions = [
        decide_signal(run, known=True),
        decide_settle(run, pending=True),
        decide_cancel(run),
        decide_deadline(run, unused=True),
        decide_abort(run, calls=0),
        decide_commands(run, owned=True, before=1, recorded=1),
    ]
    assert {refused(decision) for decision in decisions} == {"ended"}


def test_signals_are_unique_and_stop_at_the_reserve_of_the_history() -> None:
    assert refused(decide_signal(ACTIVE, known=False)) is None
    assert refused(decide_signal(ACTIVE, known=True)) == "duplicate"
    assert refused(decide_signal(FULL, known=False)) == "history_full"
    assert refused(decide_signal(FULL, known=True)) == "duplicate"
    assert refused(decide_signal(QUARANTINED, known=False)) is None


@pytest.mark.parametrize("run", [ACTIVE, CANCELLING, QUARANTINED, FULL])
def test_what_is_pending_settles_once(run: Summary) -> None:
    assert decide_settle(run, pending=True) == Append()
    assert refused(decide_settle(run, pending=False)) == "not_pending"


def test_a_run_is_cancelled_once() -> None:
    assert decide_cancel(ACTIVE) == Append(cancels=True)
    assert refused(decide_cancel(CANCELLING)) == "duplicate"
    assert decide_deadline(ACTIVE, unused=True) == Append(cancels=True)
    assert refused(decide_deadline(ACTIVE, unused=False)) == "not_pending"
    assert refused(decide_deadline(CANCELLING, unused=True)) == "duplicate"


def test_an_abort_waits_for_calls_and_follows_a_cancel() -> None:
    assert decide_abort(CANCELLING, calls=0) == Append(delivered=False, ends="aborted")
    assert refused(decide_abort(CANCELLING, calls=1)) == "not_pending"
    assert refused(decide_abort(ACTIVE, calls=0)) == "not_pending"


def test_only_the_owner_that_knows_every_command_appends() -> None:
    assert refused(decide_commands(ACTIVE, owned=True, before=3, recorded=3)) is None
    assert refused(decide_commands(ACTIVE, owned=True, before=2, recorded=3)) == "not_owner"
    assert refused(decide_commands(ACTIVE, owned=False, before=3, recorded=3)) == "not_owner"
    assert refused(decide_commands(QUARANTINED, owned=True, before=3, recorded=3)) == "ended"


def test_event_times_do_not_go_back_and_no_timer_is_early() -> None:
    assert event_time(TimeMs(5), TimeMs(3), TimeMs(0)) == 5
    assert event_time(TimeMs(5), TimeMs(7), TimeMs(0)) == 7
    assert event_time(TimeMs(5), TimeMs(7), TimeMs(9)) == 9
