"""The double's forks: what waits while one is made, and the chunks that make it."""

from abc import ABC, abstractmethod
from dataclasses import replace

from sandbox.journal.entries import EntryType, ScheduleToolCall, SignalReceived, ToolCallCompleted
from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.forks import ForkAppend, ForkDone, ForkEntry
from sandbox.store.interface import (
    FROM_START,
    CommandVerdict,
    DueWhy,
    EventAppend,
    EventOutcome,
    EventVerdict,
    ForkOrder,
    Guard,
    PendingKind,
    RunFacts,
    RunStatus,
    StoredEntry,
)
from sandbox.store.memory_children import tell_children
from sandbox.store.memory_runs import Journals, MemoryRow, MemoryRun, decoded, row_of

HELD_MAX = 1_000


class MemoryForks(ABC):
    journals: Journals

    @abstractmethod
    def append(self, run: MemoryRun, event: EventAppend) -> EventVerdict:
        """Append one event if its guard holds."""

    async def append_fork(self, append: ForkAppend) -> CommandVerdict:
        """A chunk of what a fork reuses; with the last one the run is like any other."""
        now = self.journals.time
        run = self.journals.runs.get((append.namespace, append.run))
        if (
            run is None
            or not run.forking
            or run.status is not RunStatus.ACTIVE
            or (run.owner, run.owner_epoch, run.next_seq) != (append.worker, append.owner_epoch, append.first)
        ):
            return CommandVerdict(appended=False, first_seq=Seq(0), next_seq=Seq(0), time=now)
        ends = append.done is not None and append.done.ends is not None
        for entry in append.entries[:-1] if ends else append.entries:
            _record(run, entry, now)
        if ends and append.done is not None:
            _record_held(run, {ident for ident, _ in append.done.signals}, now)
            _record(run, append.entries[-1], now)
        if append.done is not None:
            _finish(run, append.done, now)
            if run.ended_at is not None:
                tell_children(self.journals, run, now)
            held, run.held_events = run.held_events, []
            for event in held:
                self.append(run, event)
        return CommandVerdict(appended=True, first_seq=append.first, next_seq=run.next_seq, time=now)

    async def load_facts(self, namespace: NamespaceId, run: RunId) -> RunFacts | None:
        facts = self.journals.facts.get((namespace, run))
        found = self.journals.runs.get((namespace, run))
        if facts is None or found is None or not found.forking:
            return facts
        asked, parent = found.start.fork or {}, found.start.parent or {}
        at = asked.get("at")
        return replace(
            facts, fork=ForkOrder(RunId(str(parent["run"])), Seq(at) if isinstance(at, int) else None)
        )


def hold(run: MemoryRun, event: EventAppend) -> EventVerdict:
    """What happens to an event of a run that is forking."""
    if event.guard is Guard.DEADLINE and run.status is RunStatus.QUARANTINED:
        return EventVerdict(EventOutcome.NOT_PENDING)
    if event.guard is Guard.SIGNAL:
        if any(held.signal_id == event.signal_id for held in run.held_events):
            return EventVerdict(EventOutcome.DUPLICATE)
        if len(run.held_events) >= HELD_MAX:
            return EventVerdict(EventOutcome.HISTORY_FULL)
    elif event.guard in {Guard.CANCEL, Guard.DEADLINE}:
        if any(held.type == event.type for held in run.held_events):
            return EventVerdict(EventOutcome.DUPLICATE)
        run.pending.pop((PendingKind.DEADLINE, 0), None)
        event = replace(event, guard=Guard.CANCEL)
    else:
        return EventVerdict(EventOutcome.NOT_PENDING)
    run.held_events.append(event)
    return EventVerdict(EventOutcome.APPENDED)


def leave_fork(run: MemoryRun, now: TimeMs) -> list[EventAppend]:
    """An operator gives the fork up before it is made: what is recorded stands, its calls are pending, to be withdrawn.

    Chunks hold whole activations, so that the rest matches a replay. What was held, and is to be recorded now, is returned.
    """
    run.forking = False
    entries = [decoded(entry) for entry in run.entries]
    run.commands = sum(entry.cause is not None for entry in entries)
    run.delivered = max((entry.cause for entry in entries if entry.cause is not None), default=FROM_START)
    run.last_event = max(entry.seq for entry in entries if entry.cause is None)
    settled = {entry.body.call for entry in entries if isinstance(entry.body, ToolCallCompleted)}
    for entry in entries:
        if isinstance(entry.body, ScheduleToolCall):
            run.calls += 1
            if entry.body.call not in settled:
                row = row_of(PendingKind.CALL, entry.body.call, entry.seq, now)
                run.pending[row.kind, row.n] = row
    known = {entry.body.id for entry in entries if isinstance(entry.body, SignalReceived)}
    held, run.held_events = run.held_events, []
    return [event for event in held if event.signal_id is None or event.signal_id not in known]


def _record(run: MemoryRun, entry: ForkEntry, now: TimeMs) -> None:
    if entry.cause is None:
        run.last_time = max(run.last_time, now) if entry.time is None else entry.time
    fire_at = entry.fire_at
    if entry.type is EntryType.START_TIMER and fire_at is None:
        fire_at = TimeMs(now + (entry.delay_ms or 0))
    time = run.last_time if entry.time is None else entry.time
    run.entries.append(StoredEntry(run.next_seq, entry.type, time, entry.cause, fire_at, entry.body))


def _record_held(run: MemoryRun, known: set[str], now: TimeMs) -> None:
    """The fork ends with what it reuses: what came meanwhile was accepted, so it stands before the end."""
    held, run.held_events = run.held_events, []
    for event in held:
        if event.signal_id is None or event.signal_id not in known:
            if event.guard is Guard.CANCEL:
                run.cancel_seq = run.next_seq
            run.last_time = max(run.last_time, now, event.not_before)
            run.entries.append(StoredEntry(run.next_seq, event.type, run.last_time, None, None, event.body))


def _finish(run: MemoryRun, done: ForkDone, now: TimeMs) -> None:
    run.forking = False
    run.delivered, run.last_event = done.delivered, done.last_event
    run.commands, run.calls = done.commands, done.calls
    run.cpu_us, run.activations = done.cpu_us, done.activations
    run.cancel_seq = run.cancel_seq if done.cancel_seq is None else done.cancel_seq
    run.progress = done.progress or run.progress
    run.fork_report = done.report
    run.signal_ids = dict(done.signals)
    for made in done.pending:
        due = run.entries[made.seq].fire_at if made.kind is PendingKind.TIMER else None
        expires = made.gated and made.expires_ms is not None
        run.pending[made.kind, made.n] = MemoryRow(
            made.kind,
            made.n,
            made.seq,
            now,
            made.line,
            made.name,
            TimeMs(now + (made.expires_ms or 0)) if expires else due,
            gated=made.gated,
            deferred=False,
            attempt=0,
            route=made.route,
            idempotent=made.idempotent,
            timeout_ms=made.timeout_ms,
            pace=made.pace,
            why=DueWhy.APPROVAL if expires else None,
            held=made.kind is PendingKind.CALL and run.full,
        )
    if done.ends is not None:
        run.end("completed" if done.ends is RunStatus.COMPLETED else "failed", now)
