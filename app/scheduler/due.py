"""What becomes of a pending thing whose time has come, as the event to append. Pure."""

from sandbox.journal.codec import encode_body
from sandbox.journal.entries import (
    ApprovalDecided,
    CancelRequested,
    EntryType,
    RunAborted,
    TimerFired,
    ToolCallCompleted,
    ToolFailure,
)
from sandbox.journal.ids import TimeMs
from sandbox.store.approvals import Decision
from sandbox.store.interface import DueRow, DueWhy, EventAppend, Guard, PendingKind

WITHDRAWN = ToolFailure("CancelledError", None, "the call was withdrawn before it began")
PUT_OFF = ToolFailure("CancelledError", None, "the deferred call was withdrawn")
LOST = ToolFailure(
    "OutcomeUnknownError",
    None,
    "the call was begun, and whether it took effect is not known",
    retryable=False,
)


def due_event(row: DueRow) -> EventAppend:
    """The event that settles what is due; its guard refuses it when something else was faster."""
    if row.kind is PendingKind.TIMER:
        return EventAppend(
            row.namespace,
            row.run,
            EntryType.TIMER_FIRED,
            encode_body(TimerFired(row.n)),
            Guard.TIMER,
            n=row.n,
            not_before=row.due,
        )
    if row.kind is PendingKind.DEADLINE:
        body = encode_body(CancelRequested(reason="ttl"))
        return EventAppend(row.namespace, row.run, EntryType.CANCEL_REQUESTED, body, Guard.DEADLINE)
    if row.kind is PendingKind.ABANDON:
        body = encode_body(RunAborted("abandoned", None, None))
        return EventAppend(row.namespace, row.run, EntryType.RUN_ABORTED, body, Guard.ABANDON)
    return completion(row, _failure(row))


def expired_approval(row: DueRow) -> Decision:
    """Nobody decided about a gated call in time."""
    decided = ApprovalDecided(row.n, "expired", by=None, actor=None)
    return Decision(row.namespace, row.run, row.name or "", decided)


def lost_lease_event(row: DueRow) -> EventAppend:
    """A begun call whose executor was not heard of, and which may not be repeated."""
    return completion(row, LOST)


def completion(row: DueRow, failure: ToolFailure) -> EventAppend:
    withdrawn = row.attempt == 0
    body = ToolCallCompleted(
        call=row.n,
        result=None,
        error=failure,
        attempts=row.attempt,
        begun_at=None if withdrawn else row.begun_at,
    )
    return EventAppend(
        row.namespace,
        row.run,
        EntryType.TOOL_CALL_COMPLETED,
        encode_body(body),
        Guard.CALL,
        n=row.n,
        attempt=row.attempt,
        not_before=TimeMs(max(1, row.due)),
    )


def _failure(row: DueRow) -> ToolFailure:
    if row.why is DueWhy.TIMEOUT:
        seconds = TimeMs(row.timeout_ms or 0) / 1000
        return ToolFailure(
            "ToolError", "timeout", f"the tool did not answer within {seconds:g} s", retryable=True
        )
    if row.why is DueWhy.DEFERRAL:
        return ToolFailure(
            "ToolError", "timeout", "the deferred call was not completed in time", retryable=False
        )
    if row.why is DueWhy.WITHDRAWN:
        return PUT_OFF
    if row.why is DueWhy.QUEUE:
        said = "the call did not begin within its queue_timeout"
        return ToolFailure("ToolError", "timeout", said, retryable=True)
    return WITHDRAWN if row.attempt == 0 else LOST
