"""What stores do for forks: a run is started as `forking`, its owner appends what is reused, and then it is like any other."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Json, NamespaceId, OrganizationId, RunId, Seq, TimeMs, WorkerId
from sandbox.store.interface import PendingKind, Route, RunStatus


@dataclass(frozen=True, slots=True)
class ForkEntry:
    """An entry that the fork begins with. Commands have a cause. time None: that of the append."""

    type: EntryType
    time: TimeMs | None
    cause: Seq | None
    body: bytes
    fire_at: TimeMs | None = None
    delay_ms: int | None = None
    """start_timer without fire_at: fires this long after the append."""
    n: int = 0
    """Of the call, timer or wait that it is about."""
    signal_id: str | None = None


@dataclass(frozen=True, slots=True)
class ForkPending:
    """What is pending when everything reused is recorded. Timers fire at their entry's fire_at."""

    kind: PendingKind
    n: int
    seq: Seq
    name: str | None
    line: int | None
    route: Route = Route.HOST
    idempotent: bool = False
    gated: bool = False
    timeout_ms: int | None = None
    expires_ms: int | None = None
    """Of a gated call, as in its draft."""
    pace: str | None = None


@dataclass(frozen=True, slots=True)
class ForkDone:
    """What the run is once its last reused entry is recorded."""

    report: dict[str, Json]
    delivered: Seq
    last_event: Seq
    commands: int
    calls: int
    cpu_us: int
    activations: int
    organization: OrganizationId
    toolset: str | None
    pending: Sequence[ForkPending]
    signals: Sequence[tuple[str, Seq]]
    """Ids of reused signals, and where they stand: sent again, they are duplicates."""
    cancel_seq: Seq | None = None
    """Of a cancel_requested among the entries: a limit was exceeded."""
    ends: RunStatus | None = None
    progress: bytes | None = None


@dataclass(frozen=True, slots=True)
class ForkAppend:
    """A chunk; the journal must be `first` entries long. With the last one comes `done`."""

    namespace: NamespaceId
    run: RunId
    worker: WorkerId
    owner_epoch: int
    first: Seq
    entries: Sequence[ForkEntry]
    done: ForkDone | None = None
