"""What must hold after every step of a simulation, and at its end. Whatever breaks it is a bug of the engine."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from sandbox.activation.drafts import PinnedTool, emission_of
from sandbox.isolate.api import LimitExceeded
from sandbox.journal import entries as e
from sandbox.journal.codec import decode_body, wire_json
from sandbox.journal.entries import DELIVERED_TYPES, END_TYPES, Entry, EntryType
from sandbox.journal.errors import Divergence
from sandbox.journal.ids import RunId, Seq, TimeMs, WorkerId
from sandbox.journal.replay import Cursor
from sandbox.journal.state import RunState, fold
from sandbox.store.approvals import Decision
from sandbox.store.interface import (
    CommandAppend,
    CommandVerdict,
    DueWhy,
    EventAppend,
    EventOutcome,
    EventVerdict,
    Guard,
    PendingKind,
    RunStatus,
)
from sandbox.store.memory import Journals, decoded
from sandbox.store.memory_runs import MemoryRow, MemoryRun
from tests.simulation.script import Script

COULD_NOT = "Rewind could not make this call"
"""What a call gets when the dispatcher itself fails."""


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: object, what: str) -> None:
    if not holds:
        raise Broken(what)


class Checks:
    """Its own books beside the store's: who was given which run, what was acknowledged, what took effect."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self._decoded: dict[RunId, list[Entry]] = {}
        self._owners: dict[RunId, tuple[WorkerId, int]] = {}
        self.effects: Counter[tuple[RunId, int]] = Counter()
        self.signals: dict[RunId, set[str]] = {}
        self._settles: MemoryRow | None = None
        self._late: set[tuple[RunId, int, int]] = set()
        """Calls, with their attempts, whose lease the scheduler saw end. A heartbeat that comes later is too late."""
        self.steps = 0

    # -- Before and after each request to the store

    def before_event(self, event: EventAppend) -> None:
        """Remember what the event is about to settle."""
        run = self._journals.runs[event.namespace, event.run]
        kind = PendingKind(event.guard.value) if event.guard < Guard.DEADLINE else None
        self._settles = None if kind is None else run.pending.get((kind, event.n))

    def _settled(self, event: EventAppend) -> None:
        """Whoever settles a call or fires a timer must have a reason that can be seen in its row."""
        row, now = self._settles, self._journals.time
        if event.guard >= Guard.DEADLINE:
            return
        require(row is not None, f"{event.guard.name.lower()} {event.n} is settled and was not pending")
        assert row is not None
        if event.guard is Guard.TIMER:
            require(row.due is not None and row.due <= now, f"timer {event.n} fires before its time")
            return
        require(event.attempt in {None, row.attempt}, f"call {row.n} is settled by a former attempt")
        body, _ = decode_body(event.type, event.body)
        assert isinstance(body, e.ToolCallCompleted)
        self._outcome(event.run, row, body, now)

    def _outcome(self, run: RunId, row: MemoryRow, body: e.ToolCallCompleted, now: TimeMs) -> None:
        if body.error is None or body.error.name == "ToolError":
            timeout = body.error is not None and body.error.code == "timeout"
            late = row.why in {DueWhy.TIMEOUT, DueWhy.DEFERRAL} and row.due is not None and row.due <= now
            require(not timeout or late, f"call {row.n} times out early")
            require(row.attempt > 0, f"call {row.n} has an outcome and was never begun")
        elif body.error.name == "OutcomeUnknownError":
            lease_over = row.lease_until is not None and row.lease_until <= now
            lease_over = lease_over or (run, row.n, row.attempt) in self._late
            told = row.stopping or (row.due is not None and row.due <= now)
            require(lease_over or told, f"call {row.n} is given up though its lease holds")
        else:
            require(row.attempt == 0 or row.deferred, f"call {row.n} is withdrawn though it has begun")

    def after(self, name: str, args: Sequence[object], result: object) -> None:
        self.steps += 1
        if name == "append_event" and isinstance(event := args[0], EventAppend):
            assert isinstance(result, EventVerdict)
            self._after_event(event, result)
            self.check(self._journals.runs[event.namespace, event.run])
        elif name == "append_commands" and isinstance(append := args[0], CommandAppend):
            assert isinstance(result, CommandVerdict)
            if result.appended:
                owner = (append.worker, append.owner_epoch)
                require(self._owners.get(append.run) == owner, f"a former owner appended to run {append.run}")
            self.check(self._journals.runs[append.namespace, append.run])
        elif name == "decide_approval" and isinstance(decision := args[0], Decision):
            self.check(self._journals.runs[decision.namespace, decision.run])
        elif name == "expire_leases" and isinstance(result, list):
            self._late.update((row.run, row.n, row.attempt) for row in result)
        elif name == "claim_runs":
            assert isinstance(result, list)
            for claim in result:
                former = self._owners.get(claim.run, (WorkerId(0), 0))
                require(claim.owner_epoch > former[1], f"run {claim.run} is claimed with an old owner epoch")
                worker = args[0]
                assert isinstance(worker, int)
                self._owners[claim.run] = (WorkerId(worker), claim.owner_epoch)

    def _after_event(self, event: EventAppend, verdict: EventVerdict) -> None:
        if verdict.outcome is not EventOutcome.APPENDED:
            return
        self._settled(event)
        run = self._journals.runs[event.namespace, event.run]
        assert verdict.seq is not None
        entry = run.entries[verdict.seq]
        require((entry.type, entry.body) == (event.type, event.body), "what was acknowledged is not recorded")
        if event.guard is Guard.SIGNAL:
            self.signals.setdefault(event.run, set()).add(event.signal_id or "")

    # -- A run

    def check(self, run: MemoryRun) -> None:
        """The journal is one that a run can have, and what the store keeps beside it is its fold."""
        name = run.start.run
        known = self._decoded.setdefault(name, [])
        known += [decoded(entry) for entry in run.entries[len(known) :]]
        state = fold(known)
        require(
            run.commands == sum(entry.cause is not None for entry in known), "commands are counted wrongly"
        )
        require(run.calls == state.calls_made, "calls are counted wrongly")
        status = run.status.name.lower()
        require(
            status in {state.status, "quarantined"}, f"run {name} is {status}, its journal {state.status}"
        )
        require(run.cancelling == (state.cancelling is not None), "whether it is cancelled differs")
        if status != state.status:
            return
        calls = {row.n for row in run.calls_pending()}
        if run.status is not RunStatus.ACTIVE:
            require(not run.pending, "something is pending after the end")
        elif run.delivered >= run.last_event:
            self._at_rest(run, state)
        require(calls <= set(range(1, state.calls_made + 1)), "a call is pending that was never made")

    def _at_rest(self, run: MemoryRun, state: RunState) -> None:
        rows = {
            (row.kind, row.n): (row.seq, row.due if row.kind is PendingKind.TIMER else row.name)
            for row in run.pending.values()
            if row.kind in {PendingKind.CALL, PendingKind.TIMER, PendingKind.WAIT}
        }
        folded: dict[object, object] = {
            (PendingKind.CALL, n): (call.seq, call.tool) for n, call in state.calls.items()
        }
        folded |= {(PendingKind.TIMER, n): (timer.seq, timer.fire_at) for n, timer in state.timers.items()}
        folded |= {(PendingKind.WAIT, n): (wait.seq, wait.name) for n, wait in state.waits.items()}
        require(rows == folded, f"pending of {run.start.run} is not the fold: {rows} != {folded}")

    # -- The world outside

    def effect(self, run: RunId, call: int, *, idempotent: bool) -> None:
        """A tool did what it does: of a tool that may not be repeated never twice."""
        self.effects[run, call] += 1
        self._approved(run, call)
        require(idempotent or self.effects[run, call] == 1, f"call {call} of {run} took effect twice")

    def _approved(self, run: RunId, call: int) -> None:
        bodies = [entry.body for entry in self._decoded[run]]
        gated = any(
            isinstance(body, e.ScheduleToolCall) and body.call == call and body.policy.approval is not None
            for body in bodies
        )
        decided = [
            body.decision for body in bodies if isinstance(body, e.ApprovalDecided) and body.call == call
        ]
        require(
            not gated or decided == ["approved"], f"call {call} of {run} took effect, its approval: {decided}"
        )

    # -- The end

    def ended(self, run: MemoryRun, tools: Mapping[str, PinnedTool], seed: str) -> None:
        self.check(run)
        entries = self._decoded[run.start.run]
        ends = [entry for entry in run.entries if entry.type in END_TYPES]
        require(
            len(ends) == 1 and ends[0] is run.entries[-1], f"run {run.start.run} does not end exactly once"
        )
        self._outcomes(run.start.run, entries)
        got = [entry.body.id for entry in entries if isinstance(entry.body, e.SignalReceived)]
        require(len(got) == len(set(got)), "a signal was recorded twice")
        require(set(got) == self.signals.get(run.start.run, set()), "an acknowledged signal is lost")
        replay(run, tools, seed)

    def _outcomes(self, run: RunId, entries: Sequence[Entry]) -> None:
        made = [entry.body.call for entry in entries if isinstance(entry.body, e.ScheduleToolCall)]
        outcomes = [entry.body for entry in entries if isinstance(entry.body, e.ToolCallCompleted)]
        require(sorted(body.call for body in outcomes) == made, "a call has not exactly one outcome")
        for body in outcomes:
            fault = body.error is not None and body.error.message == COULD_NOT
            require(not fault, f"call {body.call} failed inside the dispatcher")
            effects = self.effects[run, body.call]
            if body.result is not None:
                require(effects, f"call {body.call} has a result and never took effect")
                assert body.result.text is not None
                require(json.loads(body.result.text) == body.call, f"call {body.call} has another's result")
            elif body.attempts == 0:
                require(not effects, f"call {body.call} took effect and is recorded as withdrawn")


def replay(run: MemoryRun, tools: Mapping[str, PinnedTool], seed: str) -> None:
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
            raise Broken(f"event {event.seq} was survived, and exceeds a limit on replay") from None
        commands, script.commands = script.commands, []
        for command in commands:
            draft = emission_of(command, time=times[Seq(command["cause"])], tools=tools).draft
            _same(cursor, draft.type, draft.cause, draft.body)
    if run.status is RunStatus.CANCELLED and script.stage != "ended":
        last = run.entries[-1]  # its owner ended it, since the clean-up was cut short or never begun
        require(last.type is EntryType.CANCEL_RUN, "a cancelled run does not end so")
        _same(cursor, last.type, last.cause or Seq(0), last.body)
    try:
        cursor.finish()
    except Divergence as error:
        raise Broken(f"replay is not the journal: {error}") from error


def _same(cursor: Cursor, type_: EntryType, cause: Seq, body: bytes) -> None:
    try:
        cursor.next(type_, cause, body)
    except Divergence as error:
        raise Broken(f"replay is not the journal: {error}") from error
