"""The approval object: the call, the line that made it, and what the run did before. Pure."""

from collections.abc import Sequence
from typing import Any

from app.approvals.repository import APPROVED, DENIED, PENDING, WITHDRAWN, Approval
from app.responses import iso, spliced
from app.runs.views import PREVIEW_BYTES, head_of
from sandbox.journal.codec import decode_body
from sandbox.journal.codeframe import code_frame
from sandbox.journal.entries import ApprovalDecided, ScheduleToolCall, ToolCallCompleted, Value
from sandbox.store.interface import StoredEntry

STORY_PREVIEW_BYTES = 500
_NAMES = {PENDING: "pending", APPROVED: "approved", DENIED: "denied"}
_WITHDRAWN = "the call was withdrawn before anybody decided"


def approval_view(
    approval: Approval,
    *,
    scheduled: StoredEntry,
    decided: StoredEntry | None,
    source: str | None,
    args_text: bytes | None,
    story: list[dict[str, Any]] | None,
) -> dict[str, Any]:
    """Return the approval, ready for orjson. `args_text`: of arguments that do not stand in the entry."""
    body, site = decode_body(scheduled.type, scheduled.body)
    assert isinstance(body, ScheduleToolCall)  # that is where the row points
    args = body.args
    said = None if decided is None else decode_body(decided.type, decided.body)[0]
    assert said is None or isinstance(said, ApprovalDecided)
    frame = None if source is None or site is None else code_frame(source, site.line, site.column)
    reason = None if said is None else said.reason
    return {
        "run": approval.run,
        "namespace": approval.namespace_name,
        "call": approval.call,
        "tool": approval.tool,
        "args": None if args.text is None else spliced(args.text),
        "args_bytes": args.bytes,
        "args_sha256": args.sha256,
        "args_truncated": args.text is None,
        "args_preview": None if args_text is None else head_of(args_text, PREVIEW_BYTES),
        "line": None if site is None else site.line,
        "column": None if site is None else site.column,
        "frame": frame or None,
        "script": approval.script,
        "labels": approval.labels,
        "requested_at": iso(approval.requested_at),
        "expires_at": iso(approval.expires_at),
        "status": _NAMES.get(approval.status, "expired"),
        "decided_at": iso(approval.decided_at),
        "reason": _WITHDRAWN if approval.status == WITHDRAWN else reason,
        "by": None if said is None else said.by,
        "actor": None
        if said is None or said.actor is None
        else {"kind": said.actor.kind, "id": said.actor.id},
        "story": story,
    }


def story_of(calls: Sequence[tuple[int, StoredEntry, StoredEntry | None]]) -> list[dict[str, Any]]:
    """What the run did before, short enough to be read at a glance."""
    return [_story_call(number, made, outcome) for number, made, outcome in calls]


def _story_call(number: int, made: StoredEntry, outcome: StoredEntry | None) -> dict[str, Any]:
    body, site = decode_body(made.type, made.body)
    assert isinstance(body, ScheduleToolCall)
    line = None if site is None else site.line
    view: dict[str, Any] = {"call": number, "tool": body.tool, "line": line, "status": "pending"}
    view["args"] = _preview(body.args)
    if outcome is None:
        return view
    completed, _ = decode_body(outcome.type, outcome.body)
    assert isinstance(completed, ToolCallCompleted)
    if completed.error is not None:
        error = f"{completed.error.name}: {completed.error.message}".encode()
        return view | {"status": "failed", "error": head_of(error, STORY_PREVIEW_BYTES)}
    assert completed.result is not None  # exactly one of the two is given
    return view | {"status": "completed", "result": _preview(completed.result)}


def _preview(value: Value) -> str:
    if value.redacted:
        return "(redacted)"
    return f"({value.bytes:,} bytes)" if value.text is None else head_of(value.text, STORY_PREVIEW_BYTES)
