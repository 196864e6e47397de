"""May this happen to the run now? The rules of the two appends, on a small summary of the run.

The store that keeps its runs in Postgres has the same rules in SQL, under the run's row lock; one
conformance suite compares the two.
"""

from dataclasses import dataclass
from typing import Literal

from sandbox.journal.ids import TimeMs
from sandbox.journal.state import Status

HISTORY_SIGNALS_MAX = 45_000
"""Of 50,000 entries: what is left is kept for the outcomes of calls and for the end."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What the decisions need to know of a run."""

    status: Status | Literal["quarantined"]
    cancelling: bool
    entries: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """`ended`, `not_pending` and `duplicate` say that it happened before; `history_full`, that it may not."""

    code: Literal["ended", "not_pending", "duplicate", "history_full", "not_owner"]


@dataclass(frozen=True, slots=True)
class Append:
    """Append the entry. `delivered`: the script will see it."""

    delivered: bool = True
    cancels: bool = False
    ends: Status | None = None


Decision = Append | Refusal


def event_time(last: TimeMs, now: TimeMs, not_before: TimeMs) -> TimeMs:
    """The time of an event: never before the last one, nor before a timer's fire_at."""
    return max(last, now, not_before)


def decide_signal(run: Summary, *, known: bool) -> Decision:
    if _ended(run):
        return Refusal("ended")
    if known:
        return Refusal("duplicate")
    return Refusal("history_full") if run.entries >= HISTORY_SIGNALS_MAX else Append()


def decide_settle(run: Summary, *, pending: bool) -> Decision:
    """The outcome of a call or the firing of a timer: settled once, by whoever comes first."""
    if _ended(run):
        return Refusal("ended")
    return Append() if pending else Refusal("not_pending")


def decide_approval(run: Summary, *, waiting: bool, approved: bool) -> Decision:
    """Decided once. A run that is being cancelled approves nothing more: what it waits for is withdrawn."""
    if _ended(run):
        return Refusal("ended")
    if not waiting or (approved and run.cancelling):
        return Refusal("not_pending")
    return Append(delivered=not approved)


def decide_cancel(run: Summary) -> Decision:
    """A cancel of any reason: a user's, a parent's, a limit's."""
    if _ended(run):
        return Refusal("ended")
    return Refusal("duplicate") if run.cancelling else Append(cancels=True)


def decide_deadline(run: Summary, *, unused: bool) -> Decision:
    """The deadline is a cancel that happens once."""
    decision = decide_cancel(run)
    return decision if unused or isinstance(decision, Refusal) else Refusal("not_pending")


def decide_abort(run: Summary, *, calls: int) -> Decision:
    """The end of a run that a limit ended, once no call is in flight."""
    if _ended(run):
        return Refusal("ended")
    if not run.cancelling or calls:
        return Refusal("not_pending")
    return Append(delivered=False, ends="aborted")


def decide_abandon(run: Summary, *, asked: bool, calls: int) -> Decision:
    """The end of a quarantined run that an operator gave up, once no call is in flight."""
    if _ended(run):
        return Refusal("ended")
    if run.status != "quarantined" or not asked or calls:
        return Refusal("not_pending")
    return Append(delivered=False, ends="aborted")


def decide_commands(run: Summary, *, owned: bool, before: int, recorded: int) -> Decision:
    """An owner's append: refused to a former owner, and to one that does not know every command."""
    if run.status != "active":
        return Refusal("ended")
    return Append() if owned and before == recorded else Refusal("not_owner")


def _ended(run: Summary) -> bool:
    return run.status not in {"active", "quarantined"}
