"""What every store does: the two kinds of append with their guards, and the reads that go with them.

`postgres/` and `memory.py` implement these protocols and pass one conformance suite. Verdicts are values:
a refused append is an answer, not an exception; `Unavailable` means that nothing is known and the caller
may try again (events: their guard makes a repeat harmless; commands: reload the run first).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, OrganizationId, RunId, Seq, TimeMs, WorkerId

FROM_START = Seq(-1)
BEFORE_ALL = TimeMs(0)
LEASE_MS = 30_000
"""How long a host-tool call stays with whoever claimed it without being heard of; the append function says the same."""


class RunStatus(IntEnum):
    """Stored code of a run's status; the wire name is the member's name in lower case."""

    ACTIVE = 0
    COMPLETED = 1
    FAILED = 2
    CANCELLED = 3
    ABORTED = 4
    QUARANTINED = 5


class PendingKind(IntEnum):
    CALL = 0
    TIMER = 1
    WAIT = 2
    DEADLINE = 4
    START = 5
    """The run was asked to start later: until then nobody may claim it."""
    ABANDON = 6
    """An operator abandoned the run: it ends as soon as no call is pending."""


class Guard(IntEnum):
    """What must hold for an event to be appended; 0 to 4 mean: that pending row exists (and is deleted)."""

    CALL = 0
    TIMER = 1
    DEADLINE = 4
    """Like CANCEL, and the deadline has not been used."""
    SIGNAL = 10
    """The signal's id is new in the run and the history is not full."""
    CANCEL = 11
    """The run is not being cancelled already."""
    ABORT = 12
    """A limit ended the run and no call is pending: the event ends the run as aborted."""
    ABANDON = 13
    """An operator abandoned the quarantined run and no call is pending: it ends as aborted."""


class Route(IntEnum):
    HOST = 0
    DISPATCHER = 1


class DueWhy(IntEnum):
    """WITHDRAWN: deferred, and its run was abandoned. QUEUE: it waited too long to begin."""

    TIMEOUT = 1
    STOP = 2
    CLEANUP = 3
    DEFERRAL = 4
    APPROVAL = 5
    WITHDRAWN = 6
    QUEUE = 7


@dataclass(frozen=True, slots=True)
class EventAppend:
    """One event for one run. `attempt`, for calls: the attempt that settles it, None for any."""

    namespace: NamespaceId
    run: RunId
    type: EntryType
    body: bytes
    guard: Guard
    n: int = 0
    signal_id: str | None = None
    attempt: int | None = None
    not_before: TimeMs = BEFORE_ALL
    """The entry's time is at least this: `fire_at` of a timer. Of a call: it is settled only if it is late still."""


class EventOutcome(StrEnum):
    APPENDED = "appended"
    DUPLICATE = "duplicate"
    NOT_PENDING = "not_pending"
    ENDED = "ended"
    UNKNOWN = "unknown"
    HISTORY_FULL = "history_full"


@dataclass(frozen=True, slots=True)
class EventVerdict:
    outcome: EventOutcome
    seq: Seq | None = None
    """Of the appended entry; for a duplicate signal, of the entry recorded before."""
    time: TimeMs | None = None
    owner: WorkerId | None = None


@dataclass(frozen=True, slots=True)
class CommandDraft:
    """One command and what it does to `pending`; fields that its type has no use for stay at their defaults."""

    type: EntryType
    cause: Seq
    time: TimeMs
    body: bytes
    n: int = 0
    name: str | None = None
    line: int | None = None
    due: TimeMs | None = None
    """start_timer for a Date: fires then."""
    delay_ms: int | None = None
    """start_timer: fires this long after the append."""
    route: Route = Route.HOST
    idempotent: bool = False
    gated: bool = False
    expires_ms: int | None = None
    """A gated call: it waits so long for its approval; None: as long as the run."""
    timeout_ms: int | None = None
    pace: str | None = None
    claim_id: str | None = None
    withdrawn: bytes | None = None
    """`claim_id` leases the new call to a parked claim; `withdrawn` completes a cancelled call that has not begun."""


@dataclass(frozen=True, slots=True)
class CommandAppend:
    """Everything that one owner's activations did since its last append; no commands: a report."""

    namespace: NamespaceId
    run: RunId
    worker: WorkerId
    owner_epoch: int
    commands_before: int
    delivered: Seq
    cpu_us: int
    activations: int
    organization: OrganizationId | None = None
    toolset: str | None = None
    """Name of the run's toolset: which claims may take its calls."""
    commands: Sequence[CommandDraft] = ()
    waits_done: Sequence[int] = ()
    """Waits that a delivered signal or timeout settled: their pending rows go."""
    progress: bytes | None = None


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """`appended` false: another owner, or the run has ended; the run must be dropped from memory.

    first_seq is where the commands stand; seqs between the worker's last known entry and first_seq are
    events that arrived meanwhile. next_seq is the journal's length after the append.
    """

    appended: bool
    first_seq: Seq
    next_seq: Seq
    time: TimeMs
    """The database's clock at the append: what timers' delays and leases were counted from."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as it is stored; `sandbox.journal.codec` turns it into an Entry or into wire JSON."""

    seq: Seq
    type: EntryType
    time: TimeMs
    cause: Seq | None
    fire_at: TimeMs | None
    body: bytes


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    namespace: NamespaceId
    run: RunId
    epoch: Epoch
    owner_epoch: int
    commands: int
    delivered: Seq
    next_seq: Seq


@dataclass(frozen=True, slots=True)
class ForkOrder:
    """A fork that is still being made: of which run, and where the reuse ends at the latest."""

    parent: RunId
    at: Seq | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run's owner needs beside its journal."""

    namespace: NamespaceId
    namespace_name: str
    organization: OrganizationId
    run: RunId
    epoch: Epoch
    script: Digest
    compiled: dict[str, Any]
    """What the epoch's stripper made of the script."""
    toolset: str | None
    tools: tuple[dict[str, Any], ...]
    """The pinned tools of the run's toolset version, as they were registered."""
    labels: dict[str, str]
    cpu_us: int = 0
    fork: ForkOrder | None = None
    """Given until everything that the fork reuses is recorded."""
    is_child: bool = False


@dataclass(frozen=True, slots=True)
class StartRun:
    namespace: NamespaceId
    organization: OrganizationId
    run: RunId
    body: bytes
    epoch: Epoch
    time: TimeMs
    """The time of run_started: from now(), or later when the run is `held`. The deadline in the body is time + ttl_ms."""
    ttl_ms: int
    script: Digest
    toolset: str | None
    toolset_digest: Digest | None
    workflow: str | None
    labels: dict[str, str]
    created_by: tuple[str, str]
    route: str = ""
    idempotency_key: str | None = None
    request_sha256: bytes = b""
    held: bool = False
    """`time` is ahead: run_started is recorded at once and delivered not before that."""
    parent: dict[str, Json] | None = None
    """`{run, kind, call?}`, as the run shows it; and of children `awaited`, and `depth`: how many called each other."""
    fork: dict[str, Json] | None = None
    """The run is a fork: `{forked_at, at?}`. Its owner first records what it reuses."""
    fork_report: bytes | None = None


class StartOutcome(StrEnum):
    STARTED = "started"
    REPLAYED = "replayed"
    CONFLICT = "conflict"
    REFUSED = "refused"
    GONE = "gone"  # the run that was to be forked


@dataclass(frozen=True, slots=True)
class StartVerdict:
    outcome: StartOutcome
    run: RunId  # REPLAYED: the one that the key started before
    refusal: dict[str, Json] | None = None  # REFUSED: the quota that is used up


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which offered calls a claim may take. namespace None: every namespace of the organization."""

    organization: OrganizationId
    namespace: NamespaceId | None = None
    toolset: str | None = None
    tools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What one namespace may have of a worker: `most` runs at work, of which it has `busy` already."""

    busy: Mapping[NamespaceId, int] = field(default_factory=dict)
    most: int = 2**31 - 1


EVERYTHING = Share()


@dataclass(frozen=True, slots=True)
class Task:
    """One leased attempt, named by `attempt` and `releases`, of a host-tool call; `body`: of its schedule_tool_call."""

    namespace: NamespaceId
    run: RunId
    call: int
    tool: str
    attempt: int
    begun_at: TimeMs
    lease_until: TimeMs
    stopping: bool
    body: bytes
    namespace_name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    releases: int = 0


@dataclass(frozen=True, slots=True)
class DueRow:
    """A pending thing whose time has come, as the scheduler settles it. `why` and `name`, the tool, are given for calls."""

    namespace: NamespaceId
    run: RunId
    kind: PendingKind
    n: int
    due: TimeMs
    why: DueWhy | None
    attempt: int
    begun_at: TimeMs | None
    timeout_ms: int | None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PendingRow:
    kind: PendingKind
    n: int
    seq: Seq
    since: TimeMs
    line: int | None
    name: str | None
    due: TimeMs | None
    gated: bool
    deferred: bool
    attempt: int
    child: RunId | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as the projections need it: the hot row, the facts, and the first pending things."""

    namespace: NamespaceId
    namespace_name: str
    run: RunId
    status: RunStatus
    cancelling: bool
    epoch: Epoch
    next_seq: Seq
    delivered: Seq
    last_event: Seq
    cpu_us: int
    activations: int
    script: Digest
    toolset: str | None
    toolset_digest: Digest | None
    workflow: str | None
    labels: dict[str, str]
    created_by: tuple[str, str]
    parent: dict[str, object] | None
    started_at: TimeMs
    ended_at: TimeMs | None
    end_seq: Seq | None
    deadline: TimeMs
    calls: int
    progress: bytes | None
    pending: tuple[PendingRow, ...]
    pending_count: int
    fork: dict[str, Any] | None = None
    """Of forks: `{forked_at, at?}`."""
    fork_report: bytes | None = None
    """JSON text of what it reuses; None until that is known."""
    forks: tuple[RunId, ...] = ()
    children: tuple[RunId, ...] = ()


class JournalStore(Protocol):
    """The edge side: start, events, reads. Appends of concurrent callers are committed together."""

    async def now(self) -> TimeMs: ...
    async def start_run(self, request: StartRun) -> StartVerdict: ...
    async def append_event(self, event: EventAppend) -> EventVerdict: ...
    async def read_entries(
        self, namespace: NamespaceId, run: RunId, *, after: Seq = FROM_START, limit: int = 500
    ) -> list[StoredEntry]: ...
    async def get_run(self, namespace: NamespaceId, run: RunId) -> RunRecord | None: ...


class OwnerStore(Protocol):
    """The worker's side beside that of the edge: claims and command appends."""

    async def claim_runs(
        self, worker: WorkerId, epochs: Sequence[Epoch], limit: int, share: Share = EVERYTHING
    ) -> list[ClaimedRun]:
        """Own up to `limit` ready runs, of each namespace its share; those with few at work come first."""

    async def append_commands(self, append: CommandAppend) -> CommandVerdict: ...
    async def release_runs(self, worker: WorkerId, runs: Sequence[tuple[NamespaceId, RunId]]) -> int: ...
