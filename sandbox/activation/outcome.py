"""What a reenactment tells its caller, as JSON: calls, logs, the end, the journal. Values are whole."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson

from sandbox.activation.scenario import Answer
from sandbox.activation.unanswered import Missing
from sandbox.activation.virtual import REAL_TIME_S, Played
from sandbox.journal import entries as e
from sandbox.journal.cassette import Cassette, RecordedCall, cassette_of
from sandbox.journal.codec import entry_from_row, wire_json
from sandbox.journal.entries import Entry, ToolFailure, Value
from sandbox.journal.ids import Seq, TimeMs
from sandbox.journal.state import fold
from sandbox.store.interface import StoredEntry

WAITING_SHOWN = 20
NOWHERE = {"line": None, "column": None, "frame": None, "stack": None}
"""Of an error that no line of the script threw."""


class Texts(Protocol):
    def text(self, value: Value) -> bytes: ...


def decoded(entries: Sequence[StoredEntry]) -> list[Entry]:
    return [
        entry_from_row(n.seq, n.type, n.time, cause=n.cause, fire_at=n.fire_at, body=n.body) for n in entries
    ]


def report_of(played: Played, texts: Texts) -> dict[str, Any]:
    """The answer to a test, for orjson."""
    entries = decoded(played.entries)
    cassette = cassette_of(entries)
    output, error = ending(cassette, texts)
    if played.exhausted:
        message = f"the test was given up after {REAL_TIME_S:g} s of real time: does the script ever end?"
        error = {"name": "TimeoutError", "message": message, **NOWHERE}
    return {
        "status": cassette.status,
        "output": output,
        "error": error,
        "calls": [call_view(call, texts) for call in cassette.calls],
        "logs": [log_view(entry) for entry in entries if isinstance(entry.body, e.Log)],
        "waiting_for": waiting_for(entries) if cassette.end is None else [],
        "journal": [orjson.Fragment(wire_of(entry)) for entry in played.entries],
        "unused": [unused_view(answer) for answer in played.unused],
        "missing": [missing_view(missing) | {"line": missing.line} for missing in played.missing],
    }


def wire_of(entry: StoredEntry) -> bytes:
    return wire_json(
        entry.seq, entry.type, entry.time, cause=entry.cause, fire_at=entry.fire_at, body=entry.body
    )


def call_view(call: RecordedCall, texts: Texts) -> dict[str, Any]:
    """A call as a cassette has it; without result and error while nobody has answered it."""
    view: dict[str, Any] = {"call": call.call, "tool": call.tool, "args": whole(call.args, texts)}
    if call.result is not None:
        view["result"] = whole(call.result, texts)
    if call.error is not None:
        view["error"] = failure_view(call.error, texts)
    if call.after is not None:
        view["after"] = call.after
    if call.order is not None:
        view["order"] = call.order
    return view


def failure_view(error: ToolFailure, texts: Texts) -> dict[str, Any]:
    data = None if error.data is None else whole(error.data, texts)
    return {
        "name": error.name,
        "code": error.code,
        "message": error.message,
        "data": data,
        "retryable": error.retryable,
    }


def ending(cassette: Cassette, texts: Texts) -> tuple[Any, dict[str, Any] | None]:
    """Output and error of a run that has ended."""
    match cassette.end:
        case e.CompleteRun():
            return whole(cassette.end.output, texts), None
        case e.FailRun():
            error = cassette.end.error
            view = {
                "name": error.name,
                "message": error.message,
                "line": error.line,
                "column": error.column,
                "frame": error.frame,
                "stack": error.stack,
            }
            optional = {"code": error.code, "cause": error.cause, "truncated": error.truncated or None}
            return None, view | {name: value for name, value in optional.items() if value is not None}
        case e.RunAborted():
            end = cassette.end
            message = f"the run exceeded its limit {end.limit}: {end.used} of {end.allowed}"
            shown = {"limit": end.limit, "allowed": end.allowed, "used": end.used}
            return None, {"name": "LimitError", "message": message, "code": end.limit, **NOWHERE, **shown}
        case _:
            return None, None


def log_view(entry: Entry) -> dict[str, Any]:
    body = entry.body
    assert isinstance(body, e.Log)
    line = None if entry.callsite is None else entry.callsite.line
    return {"level": body.level, "values": body.values, "line": line}


def waiting_for(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """What an unended run waits for, oldest first."""
    state = fold(entries)
    since = {entry.seq: _iso(entry.time) for entry in entries}
    lines: dict[int, int | None] = {
        entry.seq: None if entry.callsite is None else entry.callsite.line for entry in entries
    }
    timeouts = {wait.timer for wait in state.waits.values()}
    found: list[tuple[int, dict[str, Any]]] = []
    for number, call in state.calls.items():
        kind = "approval" if call.gated else "tool_call"
        found.append((call.seq, {"kind": kind, "call": number, "tool": call.tool}))
    for number, timer in state.timers.items():
        if number not in timeouts:
            found.append((timer.seq, {"kind": "timer", "until": _iso(timer.fire_at)}))
    found += [(wait.seq, {"kind": "signal", "name": wait.name}) for wait in state.waits.values()]
    found.sort(key=lambda item: item[0])
    return [view | {"since": since[Seq(seq)], "line": lines[seq]} for seq, view in found[:WAITING_SHOWN]]


def _iso(at: TimeMs) -> str:
    return f"{datetime.fromtimestamp(at // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def unused_view(answer: Answer) -> dict[str, Any]:
    args = "*" if answer.args is None else orjson.Fragment(answer.args)
    return {"tool": answer.tool, "args": args, "from": answer.source}


def missing_view(missing: Missing) -> dict[str, Any]:
    return {"tool": missing.tool, "args": orjson.Fragment(missing.args)}


class ByDigest:
    """For a run whose values are too much for one answer: each is `{sha256, bytes}`, to be read by its digest."""

    def text(self, value: Value) -> bytes:
        return b'{"sha256":"%b","bytes":%d}' % (value.sha256.encode(), value.bytes)


def whole(value: Value, texts: Texts) -> Any:
    return orjson.Fragment(texts.text(value))
