"""Compare what a script does again with what its journal says that it did.

Equal bytes are equal commands. Others are compared by what decides a run's course: type, cause, tool or name,
arguments and outputs by digest, delays; not callsites, policies or stacks.
"""

import json
from collections.abc import Iterable
from typing import Protocol

from sandbox.journal import entries as e
from sandbox.journal.codec import TYPE_NAMES, decode_body
from sandbox.journal.entries import COMMAND_TYPES, EntryType
from sandbox.journal.errors import Divergence
from sandbox.journal.ids import Json, Seq


class Recorded(Protocol):
    """A stored entry, as far as replay looks at it."""

    @property
    def seq(self) -> Seq: ...
    @property
    def type(self) -> EntryType: ...
    @property
    def cause(self) -> Seq | None: ...
    @property
    def body(self) -> bytes: ...


class Cursor:
    """Walks over the recorded commands of one run, in order; entries of events are skipped."""

    def __init__(self, entries: Iterable[Recorded]) -> None:
        self._commands = [entry for entry in entries if entry.type in COMMAND_TYPES]
        self._position = 0

    def next(self, type_: EntryType, cause: Seq, body: bytes) -> Seq:
        """Take the script's next command, which must equal the next recorded one; its seq.

        Errors: Divergence, naming the first field that differs and the two lines.
        """
        if self._position >= len(self._commands):
            made, line = _facts(type_, cause, body)
            raise Divergence(None, None, made, "type", line, None)
        recorded = self._commands[self._position]
        if recorded.body != body or recorded.type != type_ or recorded.cause != cause:
            _compare(recorded, type_, cause, body)
        self._position += 1
        return recorded.seq

    def finish(self) -> None:
        """Nothing more will be made: no recorded command may be left."""
        if self._position < len(self._commands):
            self._missing(self._commands[self._position])

    def _missing(self, recorded: Recorded) -> None:
        expected, line = _facts(recorded.type, recorded.cause, recorded.body)
        raise Divergence(recorded.seq, expected, None, "type", None, line)


def _compare(recorded: Recorded, type_: EntryType, cause: Seq, body: bytes) -> None:
    expected, recorded_line = _facts(recorded.type, recorded.cause, recorded.body)
    actual, line = _facts(type_, cause, body)
    for name in expected | actual:
        before, now = expected.get(name), actual.get(name)
        if before != now:
            raise Divergence(recorded.seq, before, now, name, line, recorded_line)


def _facts(type_: EntryType, cause: Seq | None, body: bytes) -> tuple[dict[str, Json], int | None]:
    """What replay compares of a command, in the order of the comparison, and its line."""
    decoded, callsite = decode_body(type_, body)
    facts: dict[str, Json] = {"type": TYPE_NAMES[type_]}
    match decoded:
        case e.ScheduleToolCall():
            facts |= {"tool": decoded.tool, "args": _shown(decoded.args), "call": decoded.call}
        case e.StartTimer():
            facts |= {"why": decoded.why, "delay": decoded.delay, "timer": decoded.timer}
        case e.SignalAwaited():
            facts |= {
                "name": decoded.name,
                "from": decoded.from_,
                "wait": decoded.wait,
                "timer": decoded.timer,
            }
        case e.ToolCallCancelled():
            facts["call"] = decoded.call
        case e.TimerCleared():
            facts["timer"] = decoded.timer
        case e.SignalWaitCleared():
            facts["wait"] = decoded.wait
        case e.Log():
            facts |= {"level": decoded.level, "values": decoded.values, "truncated": decoded.truncated}
        case e.CompleteRun():
            facts["output"] = _shown(decoded.output)
        case e.FailRun():
            error = decoded.error
            facts["error"] = {"name": error.name, "code": error.code, "message": error.message}
        case e.CancelRun():
            facts["reason"] = decoded.reason
        case _:
            raise ValueError(f"{facts['type']} is no command")
    return facts | {"cause": cause}, None if callsite is None else callsite.line


def _shown(value: e.Value) -> Json:
    """A value as a divergence report shows it; equal exactly when the digests are."""
    inline: Json = None if value.text is None else json.loads(value.text)
    return {"sha256": value.sha256} | ({} if value.text is None else {"value": inline})
