"""What the script emitted, as commands ready to append.

The prelude answers plain JSON with values as canonical text; here they become bodies with digests. Replay
and live runs go through the same function, so a command is compared in exactly the form it was recorded in.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox.activation.pace import Pace
from sandbox.journal.canonical import canonical_text, parse_json, value_of_text
from sandbox.journal.codec import encode_body
from sandbox.journal.codeframe import code_frame
from sandbox.journal.entries import (
    Callsite,
    CancelRun,
    Command,
    CompleteRun,
    EntryType,
    FailRun,
    Log,
    ScheduleToolCall,
    ScriptError,
    SignalAwaited,
    SignalWaitCleared,
    StartTimer,
    TimerCleared,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolFailure,
    ToolPolicy,
    Value,
)
from sandbox.journal.ids import Seq, TimeMs
from sandbox.store.interface import CommandDraft, Route

IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
TIME_MAX_MS = 8_640_000_000_000_000
"""The last time that a Date can hold; later timers fire then."""


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """A tool of the run's toolset as it was pinned."""

    name: str
    policy: ToolPolicy
    route: Route = Route.HOST
    pace: Pace | None = None
    by_method: bool = False
    """Whether a call may be repeated is said by the method that it asks for."""


@dataclass(frozen=True, slots=True)
class Emission:
    """One emitted command: its draft, and its value when that is too big to stand in the entry."""

    draft: CommandDraft
    big_value: tuple[Value, bytes] | None = None
    progress: bytes | None = None
    """The canonical text of what `progress()` was given."""


def withdrawn_body(call: int, attempts: int = 0) -> bytes:
    """Body of the completion of a call that never began; or was begun and put off to later, and is given up now.

    The latter may have taken effect: a fork must not make it anew as if nothing had happened.
    """
    message = "the deferred call was withdrawn" if attempts else "the call was withdrawn before it began"
    error = ToolFailure(name="CancelledError", code=None, message=message)
    return encode_body(ToolCallCompleted(call=call, result=None, error=error, attempts=attempts))


def emission_of(
    emitted: Mapping[str, Any],
    *,
    time: TimeMs,
    tools: Mapping[str, PinnedTool],
    source: str | None = None,
) -> Emission:
    """Make the command of what the prelude emitted; `time` is that of its cause.

    Shapes: `emitted` is one element of a delivery's `commands`. `source` gives the script as written, for
    the code frame of a failure.
    """
    return _Reader(emitted, time, tools, source).emission()


class _Reader:
    def __init__(
        self,
        emitted: Mapping[str, Any],
        time: TimeMs,
        tools: Mapping[str, PinnedTool],
        source: str | None,
    ) -> None:
        self._emitted = emitted
        self._time = time
        self._tools = tools
        self._source = source
        self._big: tuple[Value, bytes] | None = None
        self._progress: bytes | None = None

    def emission(self) -> Emission:
        kind = EntryType[self._emitted["type"].upper()]
        return Emission(_MAKERS[kind](self), self._big, self._progress)

    def _value(self, field: str) -> Value:
        text = self._emitted[field].encode()
        value = value_of_text(text)
        if value.text is None:
            self._big = (value, text)
        return value

    def _draft(self, kind: EntryType, body: Command, **effects: Any) -> CommandDraft:
        line = self._emitted.get("line")
        site = None if line is None else Callsite(line, self._emitted["column"])
        return CommandDraft(
            type=kind,
            cause=Seq(self._emitted["cause"]),
            time=self._time,
            body=encode_body(body, site),
            line=line,
            **effects,
        )

    def tool_call(self) -> CommandDraft:
        name = self._emitted["tool"]
        tool = self._tools[name]
        own_timeout = self._emitted.get("timeout_ms")
        policy = tool.policy
        if own_timeout is not None:
            policy = replace(policy, timeout_ms=own_timeout)
        if tool.by_method:
            policy = replace(policy, idempotent=_method(self._emitted["args"]) in IDEMPOTENT_METHODS)
        call = self._emitted["call"]
        return self._draft(
            EntryType.SCHEDULE_TOOL_CALL,
            ScheduleToolCall(call, name, self._value("args"), policy),
            n=call,
            name=name,
            route=tool.route,
            idempotent=policy.idempotent,
            gated=policy.approval is not None,
            expires_ms=policy.expires_ms,
            timeout_ms=policy.timeout_ms,
            pace=None if tool.pace is None else tool.pace.of_call(self._emitted["args"]),
        )

    def tool_call_cancelled(self) -> CommandDraft:
        call = self._emitted["call"]
        return self._draft(
            EntryType.TOOL_CALL_CANCELLED, ToolCallCancelled(call), n=call, withdrawn=withdrawn_body(call)
        )

    def start_timer(self) -> CommandDraft:
        timer, at = self._emitted["timer"], self._emitted.get("at")
        delay = self._emitted["delay"]
        # Whole ms, never early; what no clock reaches is the end of time, not an error.
        wait = None if at is not None else math.ceil(min(max(delay, 0), TIME_MAX_MS))
        due = None if at is None else TimeMs(math.ceil(min(max(at, 0), TIME_MAX_MS)))
        if wait is not None and self._time + wait > TIME_MAX_MS:
            wait, due = None, TimeMs(TIME_MAX_MS)
        return self._draft(
            EntryType.START_TIMER,
            StartTimer(timer, delay, TimeMs(0), self._emitted["why"]),
            n=timer,
            name=self._emitted["why"],
            due=due,
            delay_ms=wait,
        )

    def timer_cleared(self) -> CommandDraft:
        timer = self._emitted["timer"]
        return self._draft(EntryType.TIMER_CLEARED, TimerCleared(timer), n=timer)

    def signal_awaited(self) -> CommandDraft:
        wait, name = self._emitted["wait"], self._emitted["name"]
        body = SignalAwaited(wait, name, self._emitted.get("timer"), self._emitted.get("from"))
        return self._draft(EntryType.SIGNAL_AWAITED, body, n=wait, name=name)

    def signal_wait_cleared(self) -> CommandDraft:
        wait = self._emitted["wait"]
        return self._draft(EntryType.SIGNAL_WAIT_CLEARED, SignalWaitCleared(wait), n=wait)

    def log(self) -> CommandDraft:
        values = parse_json(self._emitted["values"])
        if not isinstance(values, list):
            raise TypeError("the prelude logged something that is no list of values")
        if self._emitted["level"] == "progress" and values:
            self._progress = canonical_text(values[0])
        body = Log(self._emitted["level"], values, bool(self._emitted.get("truncated")))
        return self._draft(EntryType.LOG, body)

    def complete_run(self) -> CommandDraft:
        return self._draft(EntryType.COMPLETE_RUN, CompleteRun(self._value("output")))

    def fail_run(self) -> CommandDraft:
        error = self._emitted["error"]
        line, column = error.get("line"), error.get("column")
        frame = None
        if line is not None and column is not None and self._source is not None:
            frame = code_frame(self._source, line, column)
        body = FailRun(
            ScriptError(
                name=error["name"],
                message=error["message"],
                code=error.get("code"),
                line=line,
                column=column,
                frame=frame,
                stack=error.get("stack"),
                cause=error.get("cause"),
                truncated=bool(error.get("truncated")),
            )
        )
        return self._draft(EntryType.FAIL_RUN, body)

    def cancel_run(self) -> CommandDraft:
        return self._draft(EntryType.CANCEL_RUN, CancelRun(self._emitted["reason"]))


def _method(args: str) -> str:
    """Of the arguments of `http.request`, which the prelude wrote."""
    value = parse_json(args)
    return str(value.get("method", "GET")) if isinstance(value, dict) else ""


_MAKERS: dict[EntryType, Callable[[_Reader], CommandDraft]] = {
    EntryType.SCHEDULE_TOOL_CALL: _Reader.tool_call,
    EntryType.TOOL_CALL_CANCELLED: _Reader.tool_call_cancelled,
    EntryType.START_TIMER: _Reader.start_timer,
    EntryType.TIMER_CLEARED: _Reader.timer_cleared,
    EntryType.SIGNAL_AWAITED: _Reader.signal_awaited,
    EntryType.SIGNAL_WAIT_CLEARED: _Reader.signal_wait_cleared,
    EntryType.LOG: _Reader.log,
    EntryType.COMPLETE_RUN: _Reader.complete_run,
    EntryType.FAIL_RUN: _Reader.fail_run,
    EntryType.CANCEL_RUN: _Reader.cancel_run,
}
