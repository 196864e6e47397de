"""Execute a recorded run again and compare: does the script do what its journal says, entry by entry?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.activation.ending import before_the_start
from sandbox.activation.ports import Blobs, Isolates
from sandbox.activation.reenacted import Play, Reenacted
from sandbox.activation.values import CHUNK_BYTES, VALUE_EVENTS, wire_bytes
from sandbox.isolate.api import LimitExceeded
from sandbox.journal.codec import TYPE_NAMES, decode_body, value_in
from sandbox.journal.entries import DELIVERED_TYPES, END_TYPES, CancelRequested, EntryType, RunAborted
from sandbox.journal.errors import Divergence
from sandbox.journal.ids import Seq
from sandbox.journal.replay import Cursor
from sandbox.store.interface import StoredEntry

VALUE_TYPES = VALUE_EVENTS | {EntryType.SCHEDULE_TOOL_CALL, EntryType.COMPLETE_RUN}
SURVIVED_CPU_FACTOR = 4
"""What was survived before gets more time: a slow machine is no divergence."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`divergence` None: the script did the same again. `reached`: seq of the last command that was made again."""

    divergence: Divergence | None
    reached: Seq


def is_redacted(entries: Sequence[StoredEntry]) -> bool:
    """Whether a value of the journal was erased: it can be checked against its seal, not executed."""
    found = (value_in(entry.body) for entry in entries if entry.type in VALUE_TYPES)
    return any(value is not None and value.redacted for value in found)


async def verify(
    play: Play, entries: Sequence[StoredEntry], isolates: Isolates, blobs: Blobs, *, logs: bool = True
) -> Verified:
    """Deliver the recorded events and compare every command. `logs` false: another script's, logs aside.

    Errors: ChildDied, SandboxFault, Unavailable.
    """
    ahead = _Ahead.of(entries)
    recorded = [
        entry for entry in entries if entry.cause is not None and (logs or entry.type != EntryType.LOG)
    ]
    if ahead.executes_nothing:
        recorded = [entry for entry in recorded if entry.type != EntryType.CANCEL_RUN]
    comparison = _Comparison(recorded, logs=logs)
    script = await Reenacted.open(play, isolates, blobs)
    try:
        await comparison.run(script, ahead)
    except Divergence as error:
        return Verified(error, comparison.reached)
    finally:
        await script.close()
    return Verified(None, comparison.reached)


@dataclass(frozen=True, slots=True)
class _Ahead:
    """The events to deliver. `cancel`: a clean-up whose limit may end it, not the run."""

    events: Sequence[StoredEntry]
    executes_nothing: bool = False
    cancel: Seq | None = None

    @classmethod
    def of(cls, entries: Sequence[StoredEntry]) -> "_Ahead":
        events = [entry for entry in entries if entry.type in DELIVERED_TYPES]
        cancel = next((entry for entry in events if entry.type == EntryType.CANCEL_REQUESTED), None)
        if entries[-1].type not in END_TYPES or _abandoned(entries[-1]):
            # What came after the last command may not have been delivered yet; or never was, in quarantine.
            last = max((entry.cause for entry in entries if entry.cause is not None), default=Seq(-1))
            events = [event for event in events if event.seq <= last]
        if cancel is None:
            return cls(events)
        body, _ = decode_body(cancel.type, cancel.body)
        assert isinstance(body, CancelRequested)
        if body.reason == "limit":
            # It ended while `event` was delivered: nothing of that event was recorded.
            end = cancel.seq if body.event is None else body.event
            return cls([event for event in events if event.seq < end])
        own = [entry for entry in entries if entry.type != EntryType.CANCEL_RUN]
        if entries[-1].type == EntryType.CANCEL_RUN and before_the_start(own, cancel):
            return cls([], executes_nothing=True)
        return cls(events, cancel=cancel.seq)


def _abandoned(end: StoredEntry) -> bool:
    body, _ = decode_body(end.type, end.body)
    return isinstance(body, RunAborted) and body.limit == "abandoned"


class _Comparison:
    def __init__(self, recorded: Sequence[StoredEntry], *, logs: bool) -> None:
        self._recorded = recorded
        self._cursor = Cursor(recorded)
        self._logs = logs
        self.reached = Seq(-1)

    async def run(self, script: Reenacted, ahead: _Ahead) -> None:
        """Errors: Divergence."""
        for chunk in _chunks(ahead.events, alone=ahead.cancel):
            try:
                reaction = await script.deliver(chunk, cpu_factor=SURVIVED_CPU_FACTOR)
            except LimitExceeded as error:
                if chunk[0].seq == ahead.cancel and self._only_the_end_is_left():
                    return
                at = chunk[0].seq if error.event_seq is None else Seq(error.event_seq)
                raise Divergence(at, None, str(error), "limit") from error
            for emission in reaction.emissions:
                draft = emission.draft
                if self._logs or draft.type != EntryType.LOG:
                    self.reached = self._cursor.next(draft.type, draft.cause, draft.body)
        self._cursor.finish()

    def _only_the_end_is_left(self) -> bool:
        """A clean-up that a limit cut short left nothing but the end of the run."""
        left = [entry for entry in self._recorded if entry.seq > self.reached]
        return [entry.type for entry in left] == [EntryType.CANCEL_RUN]


def _chunks(events: Sequence[StoredEntry], *, alone: Seq | None) -> list[list[StoredEntry]]:
    """Pieces of about CHUNK_BYTES; the event `alone` is one of its own."""
    chunks: list[list[StoredEntry]] = []
    size = CHUNK_BYTES + 1
    for event in events:
        size += wire_bytes(event)
        if size > CHUNK_BYTES or event.seq == alone:
            chunks.append([])
            size = wire_bytes(event)
        chunks[-1].append(event)
        if event.seq == alone:
            size = CHUNK_BYTES + 1
    return chunks


def divergence_view(error: Divergence, entries: Sequence[StoredEntry]) -> dict[str, Any]:
    """The entry, its type, what differs, and both lines: the script's now, and the recorded one's."""
    recorded = None if error.seq is None else next((e for e in entries if e.seq == error.seq), None)
    return {
        "seq": error.seq,
        "type": None if recorded is None else TYPE_NAMES[recorded.type],
        "field": error.field_name,
        "expected": error.expected,
        "actual": error.actual,
        "line": error.line,
        "recorded_line": error.recorded_line,
    }
