"""The store's double: journals in memory, under the same decisions, with a clock that tests set.

Every method runs without awaiting, so each is atomic, as a transaction under the run's row lock is. Several
stores (one per worker) may share one Journals.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sandbox.journal import decide
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Digest, Epoch, NamespaceId, RunId, Seq, TimeMs, WorkerId
from sandbox.journal.state import Status
from sandbox.store.interface import (
    EVERYTHING,
    FROM_START,
    LEASE_MS,
    ClaimedRun,
    CommandAppend,
    CommandDraft,
    CommandVerdict,
    DueWhy,
    EventAppend,
    EventOutcome,
    EventVerdict,
    Guard,
    PendingKind,
    RunRecord,
    RunStatus,
    Share,
    StartOutcome,
    StartRun,
    StartVerdict,
    StoredEntry,
)
from sandbox.store.memory_approvals import MemoryApprovals
from sandbox.store.memory_calls import CLEAN_UP_BEGUN_MS, CLEAN_UP_MS, STOP_MS, MemoryCalls
from sandbox.store.memory_children import MemoryChildren, give_up_child, tell_children
from sandbox.store.memory_forks import MemoryForks, hold
from sandbox.store.memory_pace import paced
from sandbox.store.memory_quarantine import MemoryQuarantine, look_again
from sandbox.store.memory_runs import Journals, MemoryRow, MemoryRun, decoded, record_of, row_of
from sandbox.store.memory_workers import MemoryWorkers

__all__ = ["Journals", "MemoryStore", "decoded"]

_ENDINGS: dict[EntryType, Status] = {
    EntryType.COMPLETE_RUN: "completed",
    EntryType.FAIL_RUN: "failed",
    EntryType.CANCEL_RUN: "cancelled",
}


class MemoryStore(MemoryCalls, MemoryApprovals, MemoryForks, MemoryChildren, MemoryQuarantine, MemoryWorkers):
    """Implements JournalStore and OwnerStore, and what the scheduler and the dispatcher need."""

    def __init__(self, journals: Journals | None = None) -> None:
        self.journals = journals or Journals()
        self.worker = WorkerId(0)

    async def close(self) -> None:
        """Nothing is held open."""

    # -- The edge side

    async def now(self) -> TimeMs:
        return self.journals.time

    async def start_run(self, request: StartRun) -> StartVerdict:
        if request.idempotency_key is not None:
            scope = (request.organization, request.namespace, request.route, request.idempotency_key)
            known = self.journals.keys.get(scope)
            if known is not None:
                same = known[1] == request.request_sha256
                return StartVerdict(StartOutcome.REPLAYED if same else StartOutcome.CONFLICT, known[0])
        parent = RunId(str((request.parent or {}).get("run")))
        if request.fork is not None and (request.namespace, parent) not in self.journals.runs:
            return StartVerdict(StartOutcome.GONE, request.run)
        if request.idempotency_key is not None:
            self.journals.keys[scope] = (request.run, request.request_sha256)
        first = StoredEntry(Seq(0), EntryType.RUN_STARTED, request.time, None, None, request.body)
        run = MemoryRun(request, [first], request.time, forking=request.fork is not None)
        deadline = TimeMs(request.time + request.ttl_ms)
        run.pending[PendingKind.DEADLINE, 0] = row_of(
            PendingKind.DEADLINE, 0, Seq(0), request.time, due=deadline
        )
        if request.held:
            run.pending[PendingKind.START, 0] = row_of(
                PendingKind.START, 0, Seq(0), self.journals.time, due=request.time
            )
        self.journals.runs[request.namespace, request.run] = run
        return StartVerdict(StartOutcome.STARTED, request.run)

    async def append_event(self, event: EventAppend) -> EventVerdict:
        run = self.journals.runs.get((event.namespace, event.run))
        return EventVerdict(EventOutcome.UNKNOWN) if run is None else self.append(run, event)

    def append(self, run: MemoryRun, event: EventAppend) -> EventVerdict:
        """Append one event if its guard holds."""
        if run.forking and run.ended_at is None:
            return hold(run, event)
        decision = _decide_event(run, event, self.journals.time)
        if isinstance(decision, decide.Refusal):
            known = run.signal_ids.get(event.signal_id or "") if decision.code == "duplicate" else None
            if event.guard is Guard.ABANDON:
                look_again(run, self.journals.time)
            return EventVerdict(EventOutcome(decision.code), known)
        self._settle(run, event, decision)
        time = decide.event_time(run.last_time, self.journals.time, event.not_before)
        owner = run.owner
        seq = run.add_event(event.type, time, event.body, delivered=decision.delivered)
        if event.guard is Guard.SIGNAL:
            run.signal_ids[event.signal_id or ""] = seq
        if decision.ends is not None:
            run.end(decision.ends, time)
            tell_children(self.journals, run, time)
        return EventVerdict(EventOutcome.APPENDED, seq, time, owner)

    def _settle(self, run: MemoryRun, event: EventAppend, decision: decide.Append) -> None:
        if event.guard in {Guard.CALL, Guard.TIMER}:
            row = run.pending.pop((PendingKind(event.guard.value), event.n))
            if event.guard is Guard.CALL:
                run.offer_next_call()
                give_up_child(self.journals, run, row)
        if decision.cancels:
            run.cancel_seq = run.next_seq
            run.pending.pop((PendingKind.DEADLINE, 0), None)
            if run.delivered < 0:  # a run that waits for its start waits no more
                run.pending.pop((PendingKind.START, 0), None)

    async def begin_runs(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> int:
        """Let workers claim the runs whose start has come."""
        begun = 0
        for key in runs:
            row = self.journals.runs[key].pending.get((PendingKind.START, 0))
            if row is not None and row.due is not None and row.due <= self.journals.time:
                del self.journals.runs[key].pending[row.kind, 0]
                begun += 1
        return begun

    async def read_entries(
        self, namespace: NamespaceId, run: RunId, *, after: Seq = FROM_START, limit: int = 500
    ) -> list[StoredEntry]:
        found = self.journals.runs.get((namespace, run))
        return [] if found is None else found.entries[after + 1 : after + 1 + limit]

    async def find_entry(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, n: int | None = None
    ) -> StoredEntry | None:
        """Return the last entry of that type, or the one about call `n`."""
        found = self.journals.runs.get((namespace, run))
        number = b'"call":%d' % (n or 0)
        for entry in reversed(found.entries if found else []):
            if entry.type == entry_type and (
                n is None or number + b"," in entry.body or number + b"}" in entry.body
            ):
                return entry
        return None

    async def get_run(self, namespace: NamespaceId, run: RunId) -> RunRecord | None:
        found = self.journals.runs.get((namespace, run))
        return (
            None
            if found is None
            else record_of(found, self.journals.namespace_names.get(namespace, namespace))
        )

    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None:
        return self.journals.scripts.get((namespace, digest))

    # -- The worker's side

    async def claim_runs(
        self, worker: WorkerId, epochs: Sequence[Epoch], limit: int, share: Share = EVERYTHING
    ) -> list[ClaimedRun]:
        """Claim ready runs, as many of each namespace as of every other."""
        if worker not in self.journals.heard_of:
            return []  # superseded: its runs were given to others, it must not take more
        counts, ranked = Counter(share.busy), []
        first = self.journals.next_turn((namespace for namespace, _ in self.journals.runs), limit)
        for (namespace, _), run in sorted(self.journals.runs.items()):
            if run.ready and run.start.epoch in epochs and counts[namespace] < share.most:
                counts[namespace] += 1
                ranked.append(((counts[namespace], first[namespace]), run))
        return [_claimed(run, worker) for _, run in sorted(ranked, key=lambda pair: pair[0])[:limit]]

    async def release_runs(self, worker: WorkerId, runs: Sequence[tuple[NamespaceId, RunId]]) -> int:
        waiting = 0
        for key in runs:
            run = self.journals.runs.get(key)
            if run is not None and run.owner == worker:
                run.owner = None
                waiting += run.ready
        return waiting

    async def append_commands(self, append: CommandAppend) -> CommandVerdict:
        now = self.journals.time
        run = self.journals.runs.get((append.namespace, append.run))
        owned = run is not None and (run.owner, run.owner_epoch) == (append.worker, append.owner_epoch)
        if run is None or isinstance(
            decide.decide_commands(
                run.summary, owned=owned, before=append.commands_before, recorded=run.commands
            ),
            decide.Refusal,
        ):
            return CommandVerdict(appended=False, first_seq=Seq(0), next_seq=Seq(0), time=now)
        first = run.next_seq
        withdrawn: list[bytes] = []
        ends = next((_ENDINGS[draft.type] for draft in append.commands if draft.type in _ENDINGS), None)
        if ends is not None:  # it may turn out to be impossible: then nothing has happened
            run = replace(run, entries=[*run.entries], pending={**run.pending}, signal_ids={**run.signal_ids})
        for draft in append.commands:
            withdrawn += _take_effect(run, draft, now)
        for number in append.waits_done:
            run.pending.pop((PendingKind.WAIT, number), None)
        if run.cancel_seq is not None and append.delivered >= run.cancel_seq:
            # The script saw the cancel: its timers and waits have rejected.
            run.pending = {
                key: row
                for key, row in run.pending.items()
                if key[0] not in {PendingKind.TIMER, PendingKind.WAIT}
            }
        run.commands += len(append.commands)
        run.delivered = append.delivered
        run.cpu_us += append.cpu_us
        run.activations += append.activations
        run.progress = append.progress or run.progress
        for body in withdrawn:
            run.add_event(EntryType.TOOL_CALL_COMPLETED, max(run.last_time, now), body)
        if ends is not None:
            run.end(ends, now)
            self.journals.runs[append.namespace, append.run] = run
            tell_children(self.journals, run, now)
        return CommandVerdict(appended=True, first_seq=first, next_seq=run.next_seq, time=now)

    async def unbegun_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, deferred: bool
    ) -> list[tuple[int, int]]:
        """(call, attempt) of what may be withdrawn."""
        return [
            (row.n, row.attempt)
            for row in self.journals.runs[namespace, run].calls_pending()
            if (row.attempt == 0 or (row.deferred and deferred)) and (below is None or row.n < below)
        ]

    async def stop_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, only_children: bool = False
    ) -> None:
        """Begun calls get 30 s for their outcome."""
        found = self.journals.runs[namespace, run]
        for row in found.calls_pending():
            if only_children and not (row.name or "").startswith("workflows."):
                continue
            if row.attempt and not row.stopping and (below is None or row.n < below):
                found.pending[row.kind, row.n] = _stopped(row, self.journals.time)

    async def count_calls(self, namespace: NamespaceId, run: RunId) -> int:
        return len(self.journals.runs[namespace, run].calls_pending())


def _decide_event(run: MemoryRun, event: EventAppend, now: TimeMs) -> decide.Decision:
    match event.guard:
        case Guard.SIGNAL:
            return decide.decide_signal(run.summary, known=event.signal_id in run.signal_ids)
        case Guard.CALL:
            row = run.pending.get((PendingKind.CALL, event.n))
            pending = row is not None and event.attempt in {None, row.attempt}
            if row is not None and event.not_before:
                pending = pending and any(at is not None and at <= now for at in (row.due, row.lease_until))
            return decide.decide_settle(run.summary, pending=pending)
        case Guard.TIMER:
            return decide.decide_settle(run.summary, pending=(PendingKind.TIMER, event.n) in run.pending)
        case Guard.CANCEL:
            return decide.decide_cancel(run.summary)
        case Guard.DEADLINE:
            unused = (PendingKind.DEADLINE, 0) in run.pending and run.status is RunStatus.ACTIVE
            return decide.decide_deadline(run.summary, unused=unused)
        case Guard.ABORT:
            return decide.decide_abort(run.summary, calls=len(run.calls_pending()))
        case Guard.ABANDON:
            asked = (PendingKind.ABANDON, 0) in run.pending
            return decide.decide_abandon(run.summary, asked=asked, calls=len(run.calls_pending()))


def _claimed(run: MemoryRun, worker: WorkerId) -> ClaimedRun:
    run.owner, run.owner_epoch = worker, run.owner_epoch + 1
    start = run.start
    place = (run.commands, run.delivered, run.next_seq)
    return ClaimedRun(start.namespace, start.run, start.epoch, run.owner_epoch, *place)


def _take_effect(run: MemoryRun, draft: CommandDraft, now: TimeMs) -> list[bytes]:
    """Append one command and do to `pending` what it does; completions of calls that it withdrew."""
    seq = run.next_seq
    fires = None
    if draft.type is EntryType.START_TIMER:
        fires = draft.due if draft.due is not None else TimeMs(now + (draft.delay_ms or 0))
    run.entries.append(StoredEntry(seq, draft.type, draft.time, draft.cause, fires, draft.body))
    row = row_of(PendingKind.CALL, draft.n, seq, now, line=draft.line, name=draft.name)
    call = (PendingKind.CALL, draft.n)
    match draft.type:
        case EntryType.SCHEDULE_TOOL_CALL:
            run.calls += 1
            held = run.full and draft.claim_id is None and not run.cancelling
            row = replace(row, held=held)
            run.pending[call] = _offered(row, draft, now, cleaning_up=run.cancelling)
        case EntryType.TOOL_CALL_CANCELLED if call in run.pending:
            if run.pending[call].attempt == 0:
                del run.pending[call]
                run.offer_next_call()
                return [draft.withdrawn or b""]
            run.pending[call] = _stopped(run.pending[call], now)
        case EntryType.START_TIMER:
            run.pending[PendingKind.TIMER, draft.n] = replace(row, kind=PendingKind.TIMER, due=fires)
        case EntryType.TIMER_CLEARED:
            run.pending.pop((PendingKind.TIMER, draft.n), None)
        case EntryType.SIGNAL_AWAITED:
            run.pending[PendingKind.WAIT, draft.n] = replace(row, kind=PendingKind.WAIT)
        case EntryType.SIGNAL_WAIT_CLEARED:
            run.pending.pop((PendingKind.WAIT, draft.n), None)
        case _:
            pass
    return []


def _offered(row: MemoryRow, draft: CommandDraft, now: TimeMs, *, cleaning_up: bool) -> MemoryRow:
    """A new call: on offer, or leased at once to a claim that waits."""
    row = replace(
        row,
        gated=draft.gated,
        route=draft.route,
        idempotent=draft.idempotent,
        timeout_ms=draft.timeout_ms,
        pace=draft.pace,
    )
    if draft.gated and draft.expires_ms is not None and not cleaning_up:
        return replace(row, due=TimeMs(now + draft.expires_ms), why=DueWhy.APPROVAL)
    begun = draft.claim_id is not None
    if begun:
        until = TimeMs(now + LEASE_MS)
        row = replace(row, attempt=1, claim_id=draft.claim_id, lease_until=until, begun_at=now)
    if cleaning_up:
        wait = CLEAN_UP_BEGUN_MS if begun else CLEAN_UP_MS
        return replace(row, due=TimeMs(now + wait), why=DueWhy.CLEANUP)
    if begun and draft.timeout_ms is not None:
        return replace(row, due=TimeMs(now + draft.timeout_ms), why=DueWhy.TIMEOUT)
    return paced(row, now)


def _stopped(row: MemoryRow, now: TimeMs) -> MemoryRow:
    return replace(row, stopping=True, due=TimeMs(now + STOP_MS), why=DueWhy.STOP)
