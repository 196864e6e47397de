"""A run as a cassette: its calls with their outcomes and its signals, which answer a test instead of the world."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sandbox.journal import entries as e
from sandbox.journal.entries import Entry, ToolFailure, Value
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import TimeMs


@dataclass(slots=True)
class RecordedCall:
    """A call that a script made; neither result nor error: nobody has answered it."""

    call: int
    tool: str
    args: Value
    line: int | None
    scheduled_at: TimeMs
    result: Value | None = None
    error: ToolFailure | None = None
    after: int | None = None
    """ms from scheduling to completion."""
    order: int | None = None
    """Seq of the outcome, where it has the time of another event: their order is then not told by their times."""


@dataclass(frozen=True, slots=True)
class RecordedSignal:
    name: str
    payload: Value
    id: str
    at: int
    """ms after the run's start."""
    order: int | None = None


@dataclass(slots=True)
class Cassette:
    started: e.RunStarted
    started_at: TimeMs
    calls: list[RecordedCall] = field(default_factory=list)
    """All calls, in the order in which the script made them."""
    signals: list[RecordedSignal] = field(default_factory=list)
    status: str = "active"
    end: e.CompleteRun | e.FailRun | e.CancelRun | e.RunAborted | None = None


def cassette_of(entries: Sequence[Entry]) -> Cassette:
    """Read a journal as a cassette. Errors: ImpossibleEntry when it does not begin with run_started."""
    if not entries or not isinstance(entries[0].body, e.RunStarted):
        raise ImpossibleEntry("the journal does not begin with run_started")
    started_at = entries[0].time
    cassette = Cassette(entries[0].body, started_at)
    shared = _shared_times(entries)
    for entry in entries:
        body = entry.body
        order = entry.seq if entry.time in shared else None
        match body:
            case e.ScheduleToolCall():
                line = None if entry.callsite is None else entry.callsite.line
                cassette.calls.append(RecordedCall(body.call, body.tool, body.args, line, entry.time))
            case e.ToolCallCompleted():
                call = cassette.calls[body.call - 1]
                call.result, call.error, call.order = body.result, body.error, order
                call.after = entry.time - call.scheduled_at
            case e.SignalReceived():
                at = entry.time - started_at
                cassette.signals.append(RecordedSignal(body.name, body.payload, body.id, at, order))
            case e.CompleteRun() | e.FailRun() | e.CancelRun() | e.RunAborted():
                cassette.status, cassette.end = _STATUS[type(body)], body
            case _:
                pass
    return cassette


_STATUS = {
    e.CompleteRun: "completed",
    e.FailRun: "failed",
    e.CancelRun: "cancelled",
    e.RunAborted: "aborted",
}


def _shared_times(entries: Iterable[Entry]) -> set[TimeMs]:
    """Times at which more than one outcome or signal arrived."""
    arrived = (e.ToolCallCompleted, e.SignalReceived)
    times = Counter(entry.time for entry in entries if isinstance(entry.body, arrived))
    return {time for time, count in times.items() if count > 1}
