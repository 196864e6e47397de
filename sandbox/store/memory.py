"""The store's double: journals in memory, under the same decisions, with a clock that tests set.

Every method runs without awaiting, so each is atomic, as a transaction under the run's row lock is. Several
stores (one per worker) may share one Journals.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sandbox.journal import decide
from sandbox.journal.codec import entry_from_row
from sandbox.journal.entries import Entry, EntryType
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, RunId, Seq, TimeMs, WorkerId
from sandbox.journal.state import Status, fold
from sandbox.store.interface import (
    EVERYTHING,
    FROM_START,
    ClaimedRun,
    CommandAppend,
    CommandDraft,
    CommandVerdict,
    EventAppend,
    EventOutcome,
    EventVerdict,
    Guard,
    PendingKind,
    PendingRow,
    RunFacts,
    RunRecord,
    RunStatus,
    Share,
    StartOutcome,
    StartRun,
    StartVerdict,
    StoredEntry,
)

PENDING_SHOWN = 20
_FIRST = Seq(0)
_ENDINGS: dict[EntryType, Status] = {
    EntryType.COMPLETE_RUN: "completed",
    EntryType.FAIL_RUN: "failed",
    EntryType.CANCEL_RUN: "cancelled",
}


@dataclass(slots=True)
class _Run:
    start: StartRun
    entries: list[StoredEntry]
    last_time: TimeMs
    status: RunStatus = RunStatus.ACTIVE
    commands: int = 0
    last_event: Seq = _FIRST
    delivered: Seq = FROM_START
    owner: WorkerId | None = None
    owner_epoch: int = 0
    cancelling: bool = False
    cpu_us: int = 0
    activations: int = 0
    calls: int = 0
    ended_at: TimeMs | None = None
    progress: bytes | None = None
    pending: dict[tuple[PendingKind, int], PendingRow] = field(default_factory=dict)
    signal_ids: dict[str, Seq] = field(default_factory=dict)

    @property
    def next_seq(self) -> Seq:
        return Seq(len(self.entries))

    @property
    def ready(self) -> bool:
        free = self.status is RunStatus.ACTIVE and self.owner is None and self.last_event > self.delivered
        return free and (PendingKind.START, 0) not in self.pending

    @property
    def summary(self) -> decide.Summary:
        name: Status | str = self.status.name.lower()
        return decide.Summary(name, self.cancelling, self.next_seq)  # type: ignore[arg-type]  # the names agree

    def calls_pending(self) -> list[PendingRow]:
        return [row for (kind, _), row in sorted(self.pending.items()) if kind is PendingKind.CALL]

    def add_event(self, type_: EntryType, time: TimeMs, body: bytes, *, delivered: bool = True) -> Seq:
        seq = self.next_seq
        self.entries.append(StoredEntry(seq, type_, time, None, None, body))
        self.last_time = time
        if delivered:
            self.last_event = seq
        return seq

    def end(self, status: Status, at: TimeMs) -> None:
        """Close the run; the journal must fold to the same status."""
        folded = fold(
            entry_from_row(e.seq, e.type, e.time, cause=e.cause, fire_at=e.fire_at, body=e.body)
            for e in self.entries
        )
        if folded.status != status:
            raise ImpossibleEntry(f"the run ends as {status}, its journal as {folded.status}")
        self.status, self.owner, self.ended_at = RunStatus[status.upper()], None, at
        self.pending.clear()
        self.signal_ids.clear()


def decoded(entry: StoredEntry) -> Entry:
    return entry_from_row(
        entry.seq, entry.type, entry.time, cause=entry.cause, fire_at=entry.fire_at, body=entry.body
    )


class Journals:
    """The shared memory of the stores of one test, and its clock."""

    def __init__(self, time: TimeMs = TimeMs(1_700_000_000_000)) -> None:  # noqa: B008
        self.time = time
        self.runs: dict[tuple[NamespaceId, RunId], _Run] = {}
        self.keys: dict[tuple[str, ...], tuple[RunId, bytes]] = {}
        self.namespace_names: dict[NamespaceId, str] = {}
        self.facts: dict[tuple[NamespaceId, RunId], RunFacts] = {}
        self.scripts: dict[tuple[NamespaceId, Digest], str] = {}
        self.quarantined: dict[RunId, dict[str, Json]] = {}
        self.workers: dict[WorkerId, Sequence[Epoch]] = {}

    def advance(self, ms: int) -> None:
        self.time = TimeMs(self.time + ms)


class MemoryStore:
    """Implements JournalStore and OwnerStore."""

    def __init__(self, journals: Journals | None = None) -> None:
        self.journals = journals or Journals()
        self.worker = WorkerId(0)

    async def register(self, epochs: Sequence[Epoch]) -> WorkerId:
        self.worker = WorkerId(len(self.journals.workers) + 1)
        self.journals.workers[self.worker] = epochs
        return self.worker

    async def close(self) -> None:
        """Nothing is held open."""

    # -- The edge side

    async def now(self) -> TimeMs:
        return self.journals.time

    async def start_run(self, request: StartRun) -> StartVerdict:
        if request.idempotency_key is not None:
            scope = (request.organization, request.namespace, request.route, request.idempotency_key)
            known = self.journals.keys.setdefault(scope, (request.run, request.request_sha256))
            if known[0] != request.run:
                same = known[1] == request.request_sha256
                return StartVerdict(StartOutcome.REPLAYED if same else StartOutcome.CONFLICT, known[0])
        first = StoredEntry(Seq(0), EntryType.RUN_STARTED, request.time, None, None, request.body)
        run = _Run(request, [first], request.time)
        deadline = TimeMs(request.time + request.ttl_ms)
        run.pending[PendingKind.DEADLINE, 0] = _row(
            PendingKind.DEADLINE, 0, Seq(0), request.time, due=deadline
        )
        if request.held:
            run.pending[PendingKind.START, 0] = _row(
                PendingKind.START, 0, Seq(0), self.journals.time, due=request.time
            )
        self.journals.runs[request.namespace, request.run] = run
        return StartVerdict(StartOutcome.STARTED, request.run)

    async def append_event(self, event: EventAppend) -> EventVerdict:
        run = self.journals.runs.get((event.namespace, event.run))
        if run is None:
            return EventVerdict(EventOutcome.UNKNOWN)
        decision = _decide_event(run, event)
        if isinstance(decision, decide.Refusal):
            known = run.signal_ids.get(event.signal_id or "") if decision.code == "duplicate" else None
            return EventVerdict(EventOutcome(decision.code), known)
        self._settle(run, event, decision)
        time = decide.event_time(run.last_time, self.journals.time, event.not_before)
        owner = run.owner
        seq = run.add_event(event.type, time, event.body, delivered=decision.delivered)
        if event.guard is Guard.SIGNAL:
            run.signal_ids[event.signal_id or ""] = seq
        if decision.ends is not None:
            run.end(decision.ends, time)
        return EventVerdict(EventOutcome.APPENDED, seq, time, owner)

    def _settle(self, run: _Run, event: EventAppend, decision: decide.Append) -> None:
        if event.guard in {Guard.CALL, Guard.TIMER}:
            del run.pending[PendingKind(event.guard.value), event.n]
        if decision.cancels:
            run.cancelling = True
            run.pending = {key: row for key, row in run.pending.items() if key[0] is PendingKind.CALL}

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
            None if found is None else _record(found, self.journals.namespace_names.get(namespace, namespace))
        )

    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None:
        return self.journals.scripts.get((namespace, digest))

    # -- The worker's side

    async def claim_runs(
        self, worker: WorkerId, epochs: Sequence[Epoch], limit: int, share: Share = EVERYTHING
    ) -> list[ClaimedRun]:
        """Claim ready runs, as many of each namespace as of every other."""
        counts, ranked = Counter(share.busy), []
        for (namespace, _), run in sorted(self.journals.runs.items()):
            if run.ready and run.start.epoch in epochs and counts[namespace] < share.most:
                counts[namespace] += 1
                ranked.append((counts[namespace], run))
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
        return CommandVerdict(appended=True, first_seq=first, next_seq=run.next_seq, time=now)

    async def load_facts(self, namespace: NamespaceId, run: RunId) -> RunFacts | None:
        return self.journals.facts.get((namespace, run))

    async def unbegun_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, deferred: bool
    ) -> list[tuple[int, int]]:
        """(call, attempt) of what may be withdrawn."""
        return [
            (row.n, row.attempt)
            for row in self.journals.runs[namespace, run].calls_pending()
            if (row.attempt == 0 or (row.deferred and deferred)) and (below is None or row.n < below)
        ]

    async def stop_calls(self, namespace: NamespaceId, run: RunId, *, below: int | None) -> None:
        """Begun calls get 30 s for their outcome."""
        found = self.journals.runs[namespace, run]
        for row in found.calls_pending():
            if row.attempt and (below is None or row.n < below):
                found.pending[row.kind, row.n] = replace(row, due=TimeMs(self.journals.time + 30_000))

    async def count_calls(self, namespace: NamespaceId, run: RunId) -> int:
        return len(self.journals.runs[namespace, run].calls_pending())

    async def quarantine(self, namespace: NamespaceId, run: RunId, report: dict[str, Json]) -> None:
        found = self.journals.runs[namespace, run]
        if found.status is RunStatus.ACTIVE and found.owner == self.worker:
            found.status, found.owner = RunStatus.QUARANTINED, None
            deadline = found.pending.get((PendingKind.DEADLINE, 0))
            if deadline is not None:
                found.pending[deadline.kind, 0] = replace(deadline, due=None)
            self.journals.quarantined[run] = report


def _decide_event(run: _Run, event: EventAppend) -> decide.Decision:
    match event.guard:
        case Guard.SIGNAL:
            return decide.decide_signal(run.summary, known=event.signal_id in run.signal_ids)
        case Guard.CALL:
            row = run.pending.get((PendingKind.CALL, event.n))
            return decide.decide_settle(
                run.summary, pending=row is not None and event.attempt in {None, row.attempt}
            )
        case Guard.TIMER:
            return decide.decide_settle(run.summary, pending=(PendingKind.TIMER, event.n) in run.pending)
        case Guard.CANCEL:
            return decide.decide_cancel(run.summary)
        case Guard.DEADLINE:
            return decide.decide_deadline(run.summary, unused=(PendingKind.DEADLINE, 0) in run.pending)
        case Guard.ABORT:
            return decide.decide_abort(run.summary, calls=len(run.calls_pending()))


def _claimed(run: _Run, worker: WorkerId) -> ClaimedRun:
    run.owner, run.owner_epoch = worker, run.owner_epoch + 1
    start = run.start
    place = (run.commands, run.delivered, run.next_seq)
    return ClaimedRun(start.namespace, start.run, start.epoch, run.owner_epoch, *place)


def _take_effect(run: _Run, draft: CommandDraft, now: TimeMs) -> list[bytes]:
    """Append one command and do to `pending` what it does; completions of calls that it withdrew."""
    seq = run.next_seq
    fires = None
    if draft.type is EntryType.START_TIMER:
        fires = draft.due if draft.due is not None else TimeMs(now + (draft.delay_ms or 0))
    run.entries.append(StoredEntry(seq, draft.type, draft.time, draft.cause, fires, draft.body))
    row = _row(PendingKind.CALL, draft.n, seq, now, line=draft.line, name=draft.name)
    call = (PendingKind.CALL, draft.n)
    match draft.type:
        case EntryType.SCHEDULE_TOOL_CALL:
            run.calls += 1
            begun = 1 if draft.claim_id is not None else 0
            run.pending[call] = replace(row, gated=draft.gated, attempt=begun)
        case EntryType.TOOL_CALL_CANCELLED if call in run.pending:
            if run.pending[call].attempt == 0:
                del run.pending[call]
                return [draft.withdrawn or b""]
            run.pending[call] = replace(run.pending[call], due=TimeMs(now + 30_000))
        case EntryType.START_TIMER if not run.cancelling:
            run.pending[PendingKind.TIMER, draft.n] = replace(row, kind=PendingKind.TIMER, due=fires)
        case EntryType.TIMER_CLEARED:
            run.pending.pop((PendingKind.TIMER, draft.n), None)
        case EntryType.SIGNAL_AWAITED if not run.cancelling:
            run.pending[PendingKind.WAIT, draft.n] = replace(row, kind=PendingKind.WAIT)
        case EntryType.SIGNAL_WAIT_CLEARED:
            run.pending.pop((PendingKind.WAIT, draft.n), None)
        case _:
            pass
    return []


def _row(
    kind: PendingKind, n: int, seq: Seq, since: TimeMs, *, due: TimeMs | None = None, line: int | None = None,
    name: str | None = None,
) -> PendingRow:  # fmt: skip
    return PendingRow(kind, n, seq, since, line, name, due, gated=False, deferred=False, attempt=0)


def _record(run: _Run, namespace_name: str) -> RunRecord:
    shown = sorted(
        (row for (kind, _), row in run.pending.items() if kind is not PendingKind.DEADLINE),
        key=lambda row: row.seq,
    )
    start = run.start
    return RunRecord(
        namespace=start.namespace,
        namespace_name=namespace_name,
        run=start.run,
        status=run.status,
        cancelling=run.cancelling,
        epoch=start.epoch,
        next_seq=run.next_seq,
        delivered=run.delivered,
        last_event=run.last_event,
        cpu_us=run.cpu_us,
        activations=run.activations,
        script=start.script,
        toolset=start.toolset,
        toolset_digest=start.toolset_digest,
        workflow=start.workflow,
        labels=start.labels,
        created_by=start.created_by,
        parent=None,
        started_at=run.entries[0].time,
        ended_at=run.ended_at,
        end_seq=None if run.ended_at is None else Seq(run.next_seq - 1),
        deadline=TimeMs(start.time + start.ttl_ms),
        calls=run.calls,
        progress=run.progress,
        pending=tuple(shown[:PENDING_SHOWN]),
        pending_count=len(shown),
    )
