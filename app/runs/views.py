"""The Run object, from a stored record and the entries that began and ended it. Pure."""

from dataclasses import dataclass
from typing import Any

from app.responses import iso, spliced
from sandbox.journal.codec import decode_body, value_in, wire_json
from sandbox.journal.entries import CancelRun, EntryType, FailRun, RunAborted, Value
from sandbox.journal.ids import Json, TimeMs
from sandbox.store.interface import PendingKind, PendingRow, RunRecord, RunStatus, StoredEntry

OUTPUT_BYTES_MAX = 262_144
"""Of an output inside a Run; a longer one is read with `/output`."""
PREVIEW_BYTES = 4_096
WAITING_SHOWN = 20
_LIMIT_WORDS = {
    "cpu": "CPU time of one event",
    "cpu_total": "CPU time of the run",
    "heap": "heap",
    "history": "length of the journal",
    "value_size": "size of a value",
    "log_volume": "volume of logs",
}


@dataclass(frozen=True, slots=True)
class RunTexts:
    """Texts of a run's values as far as they are shown; `output` may be cut to its head."""

    input: bytes | None
    output: bytes | None


def output_of(end: StoredEntry | None) -> Value | None:
    return value_in(end.body) if end is not None and end.type is EntryType.COMPLETE_RUN else None


def run_view(
    record: RunRecord,
    *,
    end: StoredEntry | None,
    texts: RunTexts,
    warnings: list[dict[str, Json]],
    quarantine_reason: str | None = None,
) -> dict[str, Any]:
    """Return the Run object, ready for orjson."""
    output = output_of(end)
    truncated = output is not None and output.bytes > OUTPUT_BYTES_MAX
    error, reason = ending_of(end)
    digest = record.toolset_digest
    view = {
        "id": record.run,
        "namespace": record.namespace_name,
        "status": record.status.name.lower(),
        "cancelling": record.cancelling and record.ended_at is None,
        "waiting_for": [_waiting(row) for row in record.pending[:WAITING_SHOWN]],
        "waiting_count": record.pending_count,
        "input": None if texts.input is None else spliced(texts.input),
        "output": None if texts.output is None or truncated else spliced(texts.output),
        "output_bytes": None if output is None else output.bytes,
        "output_truncated": truncated,
        "output_preview": head_of(texts.output, PREVIEW_BYTES) if texts.output and truncated else None,
        "error": error,
        "reason": reason if record.status is not RunStatus.QUARANTINED else quarantine_reason,
        "progress": None if record.progress is None else spliced(record.progress),
        "labels": record.labels,
        "script": record.script,
        "workflow": record.workflow,
        "toolset": None if record.toolset is None else f"{record.toolset}@{digest}",
        "parent": _parent(record),
        "forks": list(record.forks),
        "children": list(record.children),
        "epoch": record.epoch,
        "warnings": warnings,
        "created_by": {"kind": record.created_by[0], "id": record.created_by[1]},
        "started_at": iso(record.started_at),
        "ended_at": iso(record.ended_at),
        "deadline": iso(record.deadline),
        "usage": {
            "cpu_ms": round(record.cpu_us / 1000, 3),
            "calls": record.calls,
            "entries": record.next_seq,
            "activations": record.activations,
        },
    }
    if record.fork is not None:
        view["fork"] = None if record.fork_report is None else spliced(record.fork_report)
    return view


def entry_json(entry: StoredEntry) -> bytes:
    """An entry as the public JSON, its body spliced in."""
    return wire_json(
        entry.seq, entry.type, entry.time, cause=entry.cause, fire_at=entry.fire_at, body=entry.body
    )


def head_of(text: bytes, size: int) -> str:
    """The first bytes of a text, cut at a character."""
    return text[: floor_boundary(text, size)].decode()


def floor_boundary(text: bytes, at: int) -> int:
    """The last place not after `at` where a character of this UTF-8 text begins, or its end."""
    at = min(at, len(text))
    while 0 < at < len(text) and text[at] & 0xC0 == 0x80:
        at -= 1
    return at


def blocked(record: RunRecord, until: TimeMs) -> bool | None:
    """Whether nothing but people, or timers after `until`, can move the run; None: more rows must be looked at."""
    if record.status is not RunStatus.ACTIVE:
        return False
    for row in record.pending:
        if row.kind is PendingKind.START:
            return row.due is not None and row.due > until
    if record.delivered < record.last_event:
        return False
    if not record.pending or not all(_outsider(row, until) for row in record.pending):
        return False
    return True if record.pending_count <= len(record.pending) else None


def _outsider(row: PendingRow, until: TimeMs) -> bool:
    if row.kind is PendingKind.CALL:
        return row.gated or row.deferred
    if row.kind is PendingKind.TIMER:
        return row.due is not None and row.due > until
    return row.kind is PendingKind.WAIT and (row.due is None or row.due > until)


def _parent(record: RunRecord) -> dict[str, Any] | None:
    if record.parent is None:
        return None
    return {name: record.parent[name] for name in ("run", "kind", "call") if name in record.parent}


def _waiting(row: PendingRow) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if row.kind is PendingKind.CALL:
        shown = {"kind": "approval" if row.gated else "tool_call", "call": row.n, "tool": row.name}
        if row.child is not None:
            shown |= {"kind": "child_run", "run": row.child}
        if row.deferred:
            shown["deferred"] = True
    elif row.kind in {PendingKind.TIMER, PendingKind.START}:
        shown = {"kind": "timer"}
    else:
        shown = {"kind": "signal", "name": row.name}
    shown["since"] = iso(row.since)
    if row.due is not None:
        shown["until"] = iso(row.due)
    shown["line"] = row.line
    return shown


def ending_of(end: StoredEntry | None) -> tuple[dict[str, Any] | None, str | None]:
    """The run's error and reason, as its last entry has them."""
    if end is None:
        return None, None
    body, _ = decode_body(end.type, end.body)
    if isinstance(body, FailRun):
        error = body.error
        shown: dict[str, Any] = {
            "name": error.name,
            "message": error.message,
            "line": error.line,
            "column": error.column,
            "frame": error.frame,
            "stack": error.stack,
        }
        if error.code is not None:
            shown["code"] = error.code
        if error.cause is not None:
            shown["cause"] = error.cause
        if error.truncated:
            shown["truncated"] = True
        return shown, None
    if isinstance(body, CancelRun):
        return None, body.reason
    if isinstance(body, RunAborted):
        return _aborted(body), body.limit
    return None, None


def _aborted(body: RunAborted) -> dict[str, Any]:
    what = _LIMIT_WORDS.get(body.limit, body.limit)
    message = (
        "The run was abandoned." if body.limit == "abandoned" else f"The run exceeded its limit: {what}."
    )
    return {
        "name": "LimitError",
        "message": message,
        "code": body.limit,
        "line": None,
        "column": None,
        "frame": None,
        "stack": None,
        "limit": body.limit,
        "allowed": body.allowed,
        "used": body.used,
    }
