"""Journals in memory: the rows of the store's double, and how they are shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from sandbox.journal import decide
from sandbox.journal.canonical import canonical_text
from sandbox.journal.codec import entry_from_row
from sandbox.journal.entries import Entry, EntryType, Limits
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import (
    Digest,
    Epoch,
    Json,
    NamespaceId,
    OrganizationId,
    RunId,
    Seq,
    TimeMs,
    WorkerId,
)
from sandbox.journal.state import Status, fold
from sandbox.store.interface import (
    FROM_START,
    DueWhy,
    EventAppend,
    PendingKind,
    PendingRow,
    Route,
    RunFacts,
    RunRecord,
    RunStatus,
    StartRun,
    StoredEntry,
)

PENDING_SHOWN = 20
CALLS_IN_FLIGHT_MAX = Limits().calls_in_flight
_FIRST = Seq(0)


@dataclass(frozen=True, slots=True)
class MemoryRow(PendingRow):
    """A pending thing with what its lease needs, as in the table of the same name."""

    route: Route = Route.HOST
    held: bool = False
    """Kept back while as many calls of the run as may be are in flight."""
    idempotent: bool = False
    timeout_ms: int | None = None
    pace: str | None = None
    why: DueWhy | None = None
    stopping: bool = False
    available_at: TimeMs | None = None
    releases: int = 0
    begun_at: TimeMs | None = None
    claim_id: str | None = None
    lease_until: TimeMs | None = None

    @property
    def offered(self) -> bool:
        """Whether a claim may take it, as far as the row says."""
        return (
            self.kind is PendingKind.CALL
            and self.claim_id is None
            and not (self.gated or self.deferred or self.held)
        )


@dataclass(slots=True)
class MemoryRun:
    start: StartRun
    entries: list[StoredEntry]
    last_time: TimeMs
    status: RunStatus = RunStatus.ACTIVE
    commands: int = 0
    last_event: Seq = _FIRST
    delivered: Seq = FROM_START
    owner: WorkerId | None = None
    owner_epoch: int = 0
    cancel_seq: Seq | None = None
    cpu_us: int = 0
    activations: int = 0
    calls: int = 0
    ended_at: TimeMs | None = None
    progress: bytes | None = None
    pending: dict[tuple[PendingKind, int], MemoryRow] = field(default_factory=dict)
    signal_ids: dict[str, Seq] = field(default_factory=dict)
    forking: bool = False
    held_events: list[EventAppend] = field(default_factory=list)
    """Of a fork that is still being made."""
    fork_report: dict[str, Json] | None = None

    @property
    def next_seq(self) -> Seq:
        return Seq(len(self.entries))

    @property
    def cancelling(self) -> bool:
        held = any(event.type is EntryType.CANCEL_REQUESTED for event in self.held_events)
        return self.cancel_seq is not None or held

    @property
    def ready(self) -> bool:
        free = self.status is RunStatus.ACTIVE and self.owner is None and self.last_event > self.delivered
        return free and (PendingKind.START, 0) not in self.pending

    @property
    def summary(self) -> decide.Summary:
        name: Status | str = self.status.name.lower()
        return decide.Summary(name, self.cancelling, self.next_seq)  # type: ignore[arg-type]  # the names agree

    def calls_pending(self) -> list[MemoryRow]:
        return [row for (kind, _), row in sorted(self.pending.items()) if kind is PendingKind.CALL]

    @property
    def full(self) -> bool:
        """Whether as many of its calls are in flight as may be."""
        most = CALLS_IN_FLIGHT_MAX
        return self.calls > most and sum(not row.held for row in self.calls_pending()) >= most

    def offer_next_call(self) -> None:
        row = next((row for row in self.calls_pending() if row.held), None)
        if row is not None:
            self.pending[row.kind, row.n] = replace(row, held=False)

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
        self.status, self.owner, self.ended_at = RunStatus[status.upper()], None, max(at, self.last_time)
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
        self.runs: dict[tuple[NamespaceId, RunId], MemoryRun] = {}
        self.keys: dict[tuple[str, ...], tuple[RunId, bytes]] = {}
        self.namespace_names: dict[NamespaceId, str] = {}
        self.facts: dict[tuple[NamespaceId, RunId], RunFacts] = {}
        self.scripts: dict[tuple[NamespaceId, Digest], str] = {}
        self.rates: dict[tuple[OrganizationId, str | None, str], list[int]] = {}
        """When calls of a rate began, in twentieths of its time."""
        self.quarantined: dict[RunId, dict[str, Json]] = {}
        self.workers: dict[WorkerId, Sequence[Epoch]] = {}
        self.heard_of: dict[WorkerId, TimeMs] = {}
        """Workers that are registered, by their last heartbeat."""
        self.child_outbox: dict[tuple[NamespaceId, RunId, bool], tuple[TimeMs, int]] = {}
        """Children that have ended, and those that are to be cancelled (True): since when, and which news it is."""
        self._news = 0
        self.locks: set[WorkerId] = set()
        """Workers whose session lives: a killed process holds nothing."""
        self._turn = 0

    def tell_of(
        self, namespace: NamespaceId, child: RunId, at: TimeMs, *, orphaned: bool = False, again: bool = False
    ) -> None:
        """Somebody is to see to this child; `again`: what is told is new, whoever is handling the last news of it."""
        known = self.child_outbox.get((namespace, child, orphaned))
        if known is None or again:
            self._news += 1
            since = at if known is None else known[0]
            self.child_outbox[namespace, child, orphaned] = (since, self._news)

    def next_turn(self, namespaces: Iterable[NamespaceId], room: int) -> dict[NamespaceId, int]:
        """The place of each namespace in its turn: where there is no room for all, every time another is first."""
        known = sorted(set(namespaces))
        if len(known) <= room:
            return dict.fromkeys(known, 0)
        self._turn += 1
        return {namespace: (at - self._turn) % len(known) for at, namespace in enumerate(known)}

    def advance(self, ms: int) -> None:
        self.time = TimeMs(self.time + ms)


def row_of(
    kind: PendingKind, n: int, seq: Seq, since: TimeMs, *, due: TimeMs | None = None, line: int | None = None,
    name: str | None = None,
) -> MemoryRow:  # fmt: skip
    return MemoryRow(kind, n, seq, since, line, name, due, gated=False, deferred=False, attempt=0)


def record_of(run: MemoryRun, namespace_name: str) -> RunRecord:
    shown = sorted(
        (
            row
            for (kind, _), row in run.pending.items()
            if kind not in {PendingKind.DEADLINE, PendingKind.ABANDON}
        ),
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
        parent=None if start.parent is None else {**start.parent},
        started_at=run.entries[0].time
        if start.fork is None
        else TimeMs(cast("int", start.fork["forked_at"])),
        ended_at=run.ended_at,
        end_seq=None if run.ended_at is None else Seq(run.next_seq - 1),
        deadline=TimeMs(start.time + start.ttl_ms),
        calls=run.calls,
        progress=run.progress,
        pending=tuple(shown[:PENDING_SHOWN]),
        pending_count=len(shown),
        fork=start.fork,
        fork_report=None if run.fork_report is None else canonical_text(run.fork_report),
    )
