"""Pure views of a run: the Run object of the API, and what the run waits for."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import IntEnum
from typing import Any, Protocol

from sandbox.journal import entries as e
from sandbox.journal.ids import Digest, Epoch, Json, RunId, Seq, TimeMs

OUTPUT_MAX_BYTES = 262_144
"""A longer output is not in the Run object; its head is, as text."""
PREVIEW_BYTES = 2_048
WAITING_SHOWN_MAX = 20


class PendingLike(Protocol):
    """A pending thing; kind is named CALL, TIMER, WAIT or DEADLINE."""

    @property
    def kind(self) -> IntEnum: ...
    @property
    def n(self) -> int: ...
    @property
    def seq(self) -> Seq: ...
    @property
    def since(self) -> TimeMs: ...
    @property
    def line(self) -> int | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def due(self) -> TimeMs | None: ...
    @property
    def gated(self) -> bool: ...
    @property
    def deferred(self) -> bool: ...


class RunLike(Protocol):
    """A run's row and facts, as a store keeps them."""

    @property
    def namespace_name(self) -> str: ...
    @property
    def run(self) -> RunId: ...
    @property
    def status(self) -> IntEnum: ...
    @property
    def cancelling(self) -> bool: ...
    @property
    def epoch(self) -> Epoch: ...
    @property
    def next_seq(self) -> Seq: ...
    @property
    def cpu_us(self) -> int: ...
    @property
    def activations(self) -> int: ...
    @property
    def script(self) -> Digest: ...
    @property
    def toolset(self) -> str | None: ...
    @property
    def toolset_digest(self) -> Digest | None: ...
    @property
    def workflow(self) -> str | None: ...
    @property
    def labels(self) -> dict[str, str]: ...
    @property
    def created_by(self) -> tuple[str, str]: ...
    @property
    def parent(self) -> Mapping[str, Any] | None: ...
    @property
    def started_at(self) -> TimeMs: ...
    @property
    def ended_at(self) -> TimeMs | None: ...
    @property
    def deadline(self) -> TimeMs: ...
    @property
    def calls(self) -> int: ...
    @property
    def progress(self) -> bytes | None: ...
    @property
    def pending(self) -> Sequence[PendingLike]: ...
    @property
    def pending_count(self) -> int: ...


def run_view(
    record: RunLike,
    *,
    input_text: bytes | None,
    end: e.Body | None = None,
    output_text: bytes | None = None,
    forks: Sequence[RunId] = (),
    children: Sequence[RunId] = (),
    warnings: Sequence[Json] = (),
) -> dict[str, Json]:
    """Make the Run object.

    Shapes: input_text and output_text are canonical JSON, fetched by the caller when they are not inline
    (None: absent or redacted); `end` is the body of the entry that ended the run.
    """
    output = end.output if isinstance(end, e.CompleteRun) else None
    text = output_text if output is None or output.text is None else output.text
    truncated = output is not None and output.bytes > OUTPUT_MAX_BYTES
    shown = text is not None and output is not None and not truncated
    toolset = f"{record.toolset}@{record.toolset_digest}" if record.toolset_digest else record.toolset
    return {
        "id": record.run,
        "namespace": record.namespace_name,
        "status": record.status.name.lower(),
        "cancelling": record.cancelling and record.ended_at is None,
        "waiting_for": [*waiting_for(record.pending)],
        "waiting_count": record.pending_count,
        "input": None if input_text is None else json.loads(input_text),
        "output": json.loads(text) if shown and text is not None else None,
        "output_bytes": None if output is None else output.bytes,
        "output_truncated": truncated,
        "output_preview": preview(text) if truncated and text is not None else None,
        "error": error_view(end),
        "reason": end.reason if isinstance(end, e.CancelRun) else None,
        "progress": None if record.progress is None else json.loads(record.progress),
        "labels": {**record.labels},
        "script": record.script,
        "workflow": record.workflow,
        "toolset": toolset,
        "parent": None if record.parent is None else dict(record.parent),
        "forks": [*forks],
        "children": [*children],
        "epoch": record.epoch,
        "warnings": [*warnings],
        "created_by": {"kind": record.created_by[0], "id": record.created_by[1]},
        "started_at": iso_time(record.started_at),
        "ended_at": None if record.ended_at is None else iso_time(record.ended_at),
        "deadline": iso_time(record.deadline),
        "usage": {
            "cpu_ms": record.cpu_us // 1000,
            "calls": record.calls,
            "entries": record.next_seq,
            "activations": record.activations,
        },
    }


def waiting_for(pending: Sequence[PendingLike]) -> list[dict[str, Json]]:
    """Show what a run waits for, oldest first.

    The timer of a signal's timeout is shown as `until` of its wait: it was made by the command before or
    after, and its row is named `signal_timeout`.
    """
    timeouts = {
        row.seq: row.due for row in pending if row.name == "signal_timeout" and row.kind.name == "TIMER"
    }
    waits = {row.seq for row in pending if row.kind.name == "WAIT"}
    shown: list[dict[str, Json]] = []
    for row in pending:
        common: dict[str, Json] = {"since": iso_time(row.since), "line": row.line}
        match row.kind.name:
            case "CALL":
                child = (row.name or "").startswith("workflows.")
                kind = "approval" if row.gated else "child_run" if child else "tool_call"
                shown.append({"kind": kind, "call": row.n, "tool": row.name, **common})
                if row.deferred:
                    shown[-1]["deferred"] = True
            case "TIMER" if not (row.seq in timeouts and waits & {row.seq - 1, row.seq + 1}):
                shown.append({"kind": "timer", **common, **_until(row.due)})
            case "WAIT":
                due = timeouts.get(Seq(row.seq - 1)) or timeouts.get(Seq(row.seq + 1))
                shown.append({"kind": "signal", "name": row.name, **common, **_until(due)})
            case _:
                pass
    return shown[:WAITING_SHOWN_MAX]


def _until(due: TimeMs | None) -> dict[str, Json]:
    return {} if due is None else {"until": iso_time(due)}


def error_view(end: e.Body | None) -> Json:
    """Show why a run failed or was aborted; None for every other end."""
    match end:
        case e.FailRun():
            shown = asdict(end.error)
            return {
                name: shown[name]
                for name in shown
                if shown[name] is not None or name not in {"code", "cause"}
            }
        case e.RunAborted():
            over = f": {end.used} of {end.allowed}" if end.used is not None else ""
            abandoned = end.limit == "abandoned"
            message = (
                "an operator abandoned the run"
                if abandoned
                else f"the run exceeded its limit {end.limit}{over}"
            )
            limits = {"limit": end.limit, "allowed": end.allowed, "used": end.used}
            nowhere = {"line": None, "column": None, "frame": None, "stack": None}
            return {"name": "LimitError", "message": message, **nowhere, **limits}
        case _:
            return None


def preview(text: bytes, limit: int = PREVIEW_BYTES) -> str:
    """Cut the head of a text at a character's boundary."""
    return text[:limit].decode(errors="ignore")


def iso_time(time: TimeMs) -> str:
    """Spell a time in ISO 8601, UTC, with milliseconds (the calendar arithmetic of RFC 3339's appendix)."""
    days, ms = divmod(time, 86_400_000)
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    clock = f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}Z"
    return f"{year + era * 400 + (month <= 2):04}-{month:02}-{day:02}T{clock}"
