"""What must hold of a run that has ended: each outcome once, no signal lost, replay is the journal."""

import json
from collections.abc import Sequence

from sandbox.activation.drafts import emission_of
from sandbox.isolate.api import LimitExceeded
from sandbox.journal import entries as e
from sandbox.journal.codec import wire_json
from sandbox.journal.entries import DELIVERED_TYPES, END_TYPES, Entry, EntryType
from sandbox.journal.errors import Divergence
from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.journal.replay import Cursor
from sandbox.store.interface import RunStatus
from sandbox.store.memory_runs import MemoryRun
from tests.simulation.script import WORKFLOWS, Script
from tests.simulation.starting import TOOLS_PINNED
from tests.simulation.verdicts import Books, require

COULD_NOT = "Rewind could not make this call"
"""What a call gets when the dispatcher itself fails."""


def check_end(run: MemoryRun, entries: Sequence[Entry], books: Books) -> None:
    name = run.start.run
    ends = [entry for entry in run.entries if entry.type in END_TYPES]
    require(len(ends) == 1 and ends[0] is run.entries[-1], f"run {name} does not end exactly once")
    _outcomes(run.start.namespace, name, entries, books)
    received = [entry.body for entry in entries if isinstance(entry.body, e.SignalReceived)]
    got = {body.id for body in received}
    require(len(got) == len(received), f"a signal was recorded twice in {name}")
    own = {body.id for body in received if body.reused is None}
    known = books.signals.get(name, set())
    require(own <= known, f"{name} has a signal that was never acknowledged: {own - known}")
    require(known <= got, f"an acknowledged signal is lost: {name} {known - got}")
    replay(run, books.scripts[name])


def _outcomes(namespace: NamespaceId, run: RunId, entries: Sequence[Entry], books: Books) -> None:
    scheduled = [entry.body for entry in entries if isinstance(entry.body, e.ScheduleToolCall)]
    tools = {body.call: body.tool for body in scheduled}
    outcomes = [entry.body for entry in entries if isinstance(entry.body, e.ToolCallCompleted)]
    require(sorted(body.call for body in outcomes) == list(tools), "a call has not exactly one outcome")
    for body in outcomes:
        fault = body.error is not None and body.error.message == COULD_NOT
        require(not fault, f"call {body.call} failed inside the dispatcher")
        effects = books.effects[run, body.call]
        if body.reused is not None:
            require(not effects, f"call {body.call} of {run} was sent, and its outcome is its parent's")
        elif tools[body.call] in WORKFLOWS:
            require(not effects, f"call {body.call} of a workflow went to a tool")
        elif body.result is not None:
            require(effects, f"call {body.call} has a result and never took effect")
            text = body.result.text or books.values[namespace, body.result.sha256]
            require(json.loads(text) == body.call, f"call {body.call} has another's result")
        elif body.attempts == 0:
            require(not effects, f"call {body.call} took effect and is recorded as withdrawn")


def replay(run: MemoryRun, seed: str) -> None:
    """The script, given the recorded events again, makes the recorded commands and no others."""
    script = Script(seed)
    events = [entry for entry in run.entries if entry.type in DELIVERED_TYPES and entry.seq <= run.delivered]
    times: dict[Seq, TimeMs] = {}
    cursor = Cursor(run.entries)
    for event in events:
        wire = wire_json(event.seq, event.type, event.time, cause=None, fire_at=None, body=event.body)
        times[event.seq] = event.time
        try:
            script.deliver(json.loads(wire))
        except LimitExceeded:
            require(False, f"event {event.seq} was survived, and exceeds a limit on replay")
        commands, script.commands = script.commands, []
        for command in commands:
            draft = emission_of(command, time=times[Seq(command["cause"])], tools=TOOLS_PINNED).draft
            _same(cursor, draft.type, draft.cause, draft.body)
    if run.status is RunStatus.CANCELLED and script.stage != "ended":
        last = run.entries[-1]  # its owner ended it, since the clean-up was cut short or never begun
        require(last.type is EntryType.CANCEL_RUN, "a cancelled run does not end so")
        _same(cursor, last.type, last.cause or Seq(0), last.body)
    try:
        cursor.finish()
    except Divergence as error:
        require(False, f"replay is not the journal: {error}")


def _same(cursor: Cursor, type_: EntryType, cause: Seq, body: bytes) -> None:
    try:
        cursor.next(type_, cause, body)
    except Divergence as error:
        require(False, f"replay is not the journal: {error}")
