"""What a run is: the left fold of its journal, taken in delivery order.

A command takes effect directly after the event that caused it, before later events: what the script did had
not seen them. The commands that end a run take effect at their own seq, because they wait for outcomes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, assert_never, get_args

from sandbox.journal import entries as e
from sandbox.journal.canonical import canonical_text
from sandbox.journal.entries import Entry
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Seq, TimeMs

Status = Literal["active", "completed", "failed", "cancelled", "aborted"]
"""`quarantined` is missing: it is what an operator knows, not what the journal says."""

_HARNESS = frozenset({"key", "member"})
"""Kinds of actors whose signals `from: "harness"` takes."""
_DELIVERED = frozenset({e.RunStarted, e.ToolCallCompleted, e.TimerFired, e.SignalReceived, e.CancelRequested})
_ENDS = frozenset({e.CompleteRun, e.FailRun, e.CancelRun, e.RunAborted})
_COMMANDS = frozenset(get_args(e.Command))


@dataclass(slots=True)
class PendingCall:
    """A call without outcome. Whether it has begun is not in the journal: leases are the store's."""

    seq: Seq
    tool: str
    gated: bool
    """An approval must still be given before it is offered."""
    decided: bool = False
    stopping: bool = False


@dataclass(slots=True)
class PendingTimer:
    seq: Seq
    fire_at: TimeMs
    why: str


@dataclass(slots=True)
class PendingWait:
    seq: Seq
    name: str
    timer: int | None
    harness: bool


@dataclass(slots=True)
class RunState:
    """The accumulator of the fold; `apply` changes it in place."""

    status: Status = "active"
    started: e.RunStarted | None = None
    cancelling: Literal["user", "ttl", "parent", "limit"] | None = None
    end: Entry | None = None
    calls: dict[int, PendingCall] = field(default_factory=dict)
    timers: dict[int, PendingTimer] = field(default_factory=dict)
    waits: dict[int, PendingWait] = field(default_factory=dict)
    kept: list[e.SignalReceived] = field(default_factory=list)
    """Delivered signals that no wait has taken yet, oldest first."""
    signal_ids: set[str] = field(default_factory=set)
    calls_made: int = 0
    timers_made: int = 0
    waits_made: int = 0
    log_bytes: int = 0
    entries: int = 0
    last_event: Seq = field(default=Seq(-1))
    time: TimeMs = field(default=TimeMs(0))
    """Of the last event; logical time when that event was delivered."""
    cleared: dict[int, Seq] = field(default_factory=dict)
    """Timers cleared, by the seq of it: a firing recorded before that is a no-op."""


def fold(entries: Iterable[Entry]) -> RunState:
    """Compute what a run is from its journal, or from any prefix of it.

    Errors: ImpossibleEntry when no run can have produced these entries.
    """
    state = RunState()
    for entry in delivery_order(entries):
        apply(state, entry)
    return state


def delivery_order(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Give a journal's entries, which come by seq, in the order in which they take effect."""
    ordered: list[Entry] = []
    caused: dict[Seq, list[Entry]] = {}
    last_cause = -1
    for entry in entries:
        _require(entry.seq == len(ordered), entry, "a seq is missing or out of order")
        ordered.append(entry)
        if type(entry.body) in _COMMANDS:
            _require(entry.cause is not None, entry, "a command without cause")
            cause = entry.cause or Seq(0)
            _require(last_cause <= cause < entry.seq, entry, "its cause is out of order")
            last_cause = cause
            if type(entry.body) not in _ENDS:
                caused.setdefault(cause, []).append(entry)
    for entry in ordered:
        if type(entry.body) in _COMMANDS and type(entry.body) not in _ENDS:
            continue
        yield entry
        if type(entry.body) in _DELIVERED:
            yield from caused.pop(entry.seq, ())
    for orphans in caused.values():
        _require(False, orphans[0], "its cause is no event that is delivered")


def apply(state: RunState, entry: Entry) -> None:
    """Let one entry take effect; entries must come in delivery order.

    Errors: ImpossibleEntry, with the state left as it was before or half changed: drop it.
    """
    body = entry.body
    _require(state.end is None, entry, "nothing follows the end of a run")
    first = isinstance(body, e.RunStarted)
    _require(first == (state.started is None), entry, "run_started is the first entry, once")
    if type(body) in _COMMANDS:
        _check_command(state, entry)
    else:
        _require(entry.cause is None and entry.callsite is None, entry, "an event has no cause")
        _require(entry.seq > state.last_event and entry.time >= state.time, entry, "events do not go back")
        state.last_event, state.time = entry.seq, entry.time
    state.entries += 1
    match body:
        case e.RunStarted():
            state.started = body
        case e.ScheduleToolCall():
            state.calls_made = _next(state.calls_made, body.call, entry)
            state.calls[body.call] = PendingCall(entry.seq, body.tool, bool(body.policy.approval))
        case e.ToolCallCancelled():
            _require(not _call(state, body.call, entry).stopping, entry, "the call is cancelled already")
            state.calls[body.call].stopping = True
        case e.ApprovalDecided():
            call = _call(state, body.call, entry)
            _require(call.gated and not call.decided, entry, "the call needs no approval")
            call.gated, call.decided = body.decision != "approved", True
        case e.ToolCallCompleted():
            _complete(state, entry, body)
        case e.StartTimer():
            _require(state.cancelling is None, entry, "a clean-up does not wait")
            state.timers_made = _next(state.timers_made, body.timer, entry)
            state.timers[body.timer] = PendingTimer(entry.seq, body.fire_at, body.why)
        case e.TimerFired():
            _fire(state, entry, body)
        case e.TimerCleared():
            _require(body.timer in state.timers, entry, "the timer is not pending")
            del state.timers[body.timer]
            state.cleared[body.timer] = entry.seq
        case e.SignalAwaited() | e.SignalWaitCleared() | e.SignalReceived():
            _signal(state, entry, body)
        case e.Log():
            state.log_bytes += len(canonical_text(body.values))
        case e.CancelRequested():
            _require(state.cancelling is None, entry, "the run is being cancelled already")
            state.cancelling, state.timers, state.waits = body.reason, {}, {}
        case e.CompleteRun() | e.FailRun() | e.CancelRun() | e.RunAborted():
            _end(state, entry, body)
        case _:
            assert_never(body)


def _check_command(state: RunState, entry: Entry) -> None:
    if type(entry.body) in _ENDS:
        known = entry.cause is not None and entry.cause <= state.last_event and entry.time <= state.time
        _require(known, entry, "its cause or time is ahead of the journal")
        return
    _require(state.cancelling != "limit", entry, "a run that a limit ended does nothing more")
    _require(entry.cause == state.last_event, entry, "its cause is not the event being delivered")
    _require(entry.time == state.time, entry, "a command has the time of its cause")


def _complete(state: RunState, entry: Entry, body: e.ToolCallCompleted) -> None:
    call = _call(state, body.call, entry)
    _require((body.result is None) != (body.error is None), entry, "exactly one of result and error is given")
    _require(body.attempts > 0 or body.error is not None, entry, "a call that was not begun has no result")
    approved = not call.gated or body.reused is not None or _lost_by_the_parent(state, body)
    _require(body.attempts == 0 or approved, entry, "the call was not approved")
    del state.calls[body.call]


def _lost_by_the_parent(state: RunState, body: e.ToolCallCompleted) -> bool:
    """An earlier run of a fork's line had approved and begun it, and its outcome is not known."""
    forked = state.started is not None and state.started.origin is not None
    return forked and body.error is not None and body.error.name == "OutcomeUnknownError"


def _fire(state: RunState, entry: Entry, body: e.TimerFired) -> None:
    _require(body.timer <= state.timers_made, entry, "the timer was never started")
    timer = state.timers.pop(body.timer, None)
    if timer is None:
        recorded_before_clear = entry.seq < state.cleared.get(body.timer, -1)
        _require(recorded_before_clear or state.cancelling is not None, entry, "the timer is not pending")
        return
    _require(entry.time >= timer.fire_at, entry, "the timer fired early")
    if timer.why == "signal_timeout":
        for number, wait in list(state.waits.items()):
            if wait.timer == body.timer:
                del state.waits[number]


def _signal(
    state: RunState, entry: Entry, body: e.SignalAwaited | e.SignalWaitCleared | e.SignalReceived
) -> None:
    """Match signals and waits of one name, both first come first served, at delivery."""
    match body:
        case e.SignalAwaited():
            _require(state.cancelling is None, entry, "a clean-up does not wait")
            state.waits_made = _next(state.waits_made, body.wait, entry)
            wait = PendingWait(entry.seq, body.name, body.timer, body.from_ == "harness")
            taken = next((signal for signal in state.kept if _takes(wait, signal)), None)
            if taken is not None:
                state.kept.remove(taken)
            else:
                state.waits[body.wait] = wait
        case e.SignalWaitCleared():
            _require(body.wait in state.waits, entry, "the wait is not pending")
            del state.waits[body.wait]
        case e.SignalReceived():
            _require(body.id not in state.signal_ids, entry, "the signal was received already")
            state.signal_ids.add(body.id)
            for number, wait in state.waits.items():
                if _takes(wait, body):
                    del state.waits[number]
                    return
            state.kept.append(body)
        case _:
            assert_never(body)


def _takes(wait: PendingWait, signal: e.SignalReceived) -> bool:
    return wait.name == signal.name and (not wait.harness or signal.actor.kind in _HARNESS)


def _end(state: RunState, entry: Entry, body: e.CompleteRun | e.FailRun | e.CancelRun | e.RunAborted) -> None:
    _require(not state.calls, entry, "a run does not end with a call in flight")
    match body:
        case e.CompleteRun() | e.FailRun():
            _require(state.cancelling != "limit", entry, "a limit had ended the run")
            state.status = "completed" if isinstance(body, e.CompleteRun) else "failed"
        case e.CancelRun():
            _require(state.cancelling not in {None, "limit"}, entry, "nobody cancelled the run")
            state.status = "cancelled"
        case e.RunAborted():
            asked = state.cancelling == "limit" or body.limit == "abandoned"
            _require(asked, entry, "no limit had ended the run")
            state.status = "aborted"
        case _:
            assert_never(body)
    state.end = entry
    state.timers, state.waits, state.kept = {}, {}, []


def _call(state: RunState, number: int, entry: Entry) -> PendingCall:
    _require(number in state.calls, entry, "its call is not pending")
    return state.calls[number]


def _next(made: int, number: int, entry: Entry) -> int:
    _require(number == made + 1, entry, "its number is not the next one")
    return number


def _require(holds: object, entry: Entry, otherwise: str) -> None:
    if not holds:
        raise ImpossibleEntry(f"entry {entry.seq} ({type(entry.body).__name__}): {otherwise}")
