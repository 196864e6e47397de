"""The closed union of entries, in two halves: commands go from script to world, events from world to script.

Field names are the wire names of the public contract. An entry body never changes once it is recorded.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from sandbox.journal.ids import Digest, Epoch, Json, RunId, Seq, Sha256, TimeMs


class EntryType(IntEnum):
    """Stored code of each entry type; the wire name is the member's name in lower case. Codes are never reused."""

    RUN_STARTED = 1
    SCHEDULE_TOOL_CALL = 2
    TOOL_CALL_CANCELLED = 3
    APPROVAL_DECIDED = 4
    TOOL_CALL_COMPLETED = 5
    START_TIMER = 6
    TIMER_FIRED = 7
    TIMER_CLEARED = 8
    SIGNAL_AWAITED = 9
    SIGNAL_WAIT_CLEARED = 10
    SIGNAL_RECEIVED = 11
    LOG = 12
    CANCEL_REQUESTED = 13
    COMPLETE_RUN = 14
    FAIL_RUN = 15
    CANCEL_RUN = 16
    RUN_ABORTED = 17


Text = bytes
"""Canonical JSON in UTF-8."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that crossed the sandbox's wall, identified by its canonical JSON text (RFC 8785).

    `text` is that text in UTF-8; None when it is above the inline limit (the bytes are then in the
    object store) or when the value was redacted.
    """

    sha256: Sha256
    bytes: int
    text: Text | None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Callsite:
    """Position in the source as written, 1-based; columns count UTF-16 code units as V8 does."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, as authenticated: kind is `key`, `token`, `member`, `run` or `system`."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Parent:
    run: RunId
    kind: Literal["fork", "workflow"]
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """The first run of a fork's line, as the module `rewind` shows it to the script of every fork."""

    run: RunId
    labels: dict[str, str]
    deadline: TimeMs
    parent: RunId | None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that a script can observe, fixed when its run starts."""

    cpu_ms_per_event: int = 5_000
    cpu_ms_total: int = 300_000
    heap_bytes: int = 128 * 1024 * 1024
    history_entries: int = 50_000
    value_bytes: int = 16 * 1024 * 1024
    depth: int = 200
    calls_in_flight: int = 1_000
    log_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """What the pinned tool says about its calls; `retry` and `approval` stay JSON as they were declared."""

    approval: Json = None
    idempotent: bool = False
    timeout_ms: int | None = None
    retry: Json = None

    @property
    def expires_ms(self) -> int | None:
        """How long a call waits for its approval; None: as long as its run."""
        own = self.approval.get("expires_ms") if isinstance(self.approval, dict) else None
        return own if isinstance(own, int) else None


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """The `error` of a completed call, as the script will see it."""

    name: str
    code: str | None
    message: str
    data: Value | None = None
    retryable: bool = False
    truncated: bool = False
    """The message was too long and is cut."""


@dataclass(frozen=True, slots=True)
class ScriptError:
    """The error that ended a run; line and column are None when no frame of the script was on the stack."""

    name: str
    message: str
    code: str | None = None
    line: int | None = None
    column: int | None = None
    frame: str | None = None
    stack: str | None = None
    cause: Json = None
    truncated: bool = False
    """A text of it was too long and is cut."""


# -- Events: from the world to the script


@dataclass(frozen=True, slots=True)
class RunStarted:
    input: Value
    script: Digest
    toolset: str | None
    """`name@sha256:<hex>`, or None: the run has no tools."""
    seed: str
    """32 hex digits: the run's randomness."""
    epoch: Epoch
    deadline: TimeMs
    labels: dict[str, str]
    limits: Limits
    started_by: Actor
    parent: Parent | None = None
    forked_at: TimeMs | None = None
    origin: Origin | None = None
    """Given for forks only."""


@dataclass(frozen=True, slots=True)
class ToolCallCompleted:
    """Exactly one of `result` and `error` is given. attempts 0: the call was withdrawn before it began."""

    call: int
    result: Value | None
    error: ToolFailure | None
    attempts: int
    begun_at: TimeMs | None = None
    reused: Seq | None = None


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    call: int
    decision: Literal["approved", "denied", "expired"]
    by: str | None
    actor: Actor | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: int
    reused: Seq | None = None


@dataclass(frozen=True, slots=True)
class SignalReceived:
    name: str
    payload: Value
    id: str
    by: str | None
    actor: Actor
    reused: Seq | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """`limit`, `allowed`, `used` and `event` (wire name `cause`) are given for reason `limit` only."""

    reason: Literal["user", "ttl", "parent", "limit"]
    by: str | None = None
    detail: str | None = None
    limit: str | None = None
    allowed: int | None = None
    used: int | None = None
    event: Seq | None = None


@dataclass(frozen=True, slots=True)
class RunAborted:
    limit: str
    allowed: int | None
    used: int | None


# -- Commands: from the script to the world


@dataclass(frozen=True, slots=True)
class ScheduleToolCall:
    call: int
    tool: str
    args: Value
    policy: ToolPolicy
    idempotency_key: str | None = None
    """In a fork, for a call that an earlier run of the line may have made: the key that it had there."""


@dataclass(frozen=True, slots=True)
class ToolCallCancelled:
    call: int


@dataclass(frozen=True, slots=True)
class StartTimer:
    timer: int
    delay: float
    """As asked, in ms: what replay compares. For a Date: its time minus the logical time."""
    fire_at: TimeMs
    why: Literal["sleep", "timeout", "interval", "signal_timeout", "abort_timeout"]


@dataclass(frozen=True, slots=True)
class TimerCleared:
    timer: int


@dataclass(frozen=True, slots=True)
class SignalAwaited:
    wait: int
    name: str
    timer: int | None = None
    from_: Literal["harness"] | None = None


@dataclass(frozen=True, slots=True)
class SignalWaitCleared:
    wait: int


@dataclass(frozen=True, slots=True)
class Log:
    level: Literal["debug", "log", "info", "warn", "error", "progress"]
    values: list[Json]
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class CompleteRun:
    output: Value


@dataclass(frozen=True, slots=True)
class FailRun:
    error: ScriptError


@dataclass(frozen=True, slots=True)
class CancelRun:
    reason: str


Event = (
    RunStarted | ToolCallCompleted | ApprovalDecided | TimerFired | SignalReceived | CancelRequested | RunAborted
)  # fmt: skip
Command = (
    ScheduleToolCall | ToolCallCancelled | StartTimer | TimerCleared | SignalAwaited | SignalWaitCleared | Log
    | CompleteRun | FailRun | CancelRun
)  # fmt: skip
Body = Event | Command

DELIVERED_TYPES = frozenset({
    EntryType.RUN_STARTED, EntryType.TOOL_CALL_COMPLETED, EntryType.TIMER_FIRED, EntryType.SIGNAL_RECEIVED,
    EntryType.CANCEL_REQUESTED,
})  # fmt: skip
"""Events that reach the script; the others only change what may happen to the run."""
_EVENT_TYPES = DELIVERED_TYPES | {EntryType.APPROVAL_DECIDED, EntryType.RUN_ABORTED}
COMMAND_TYPES = frozenset(EntryType) - _EVENT_TYPES
END_TYPES = frozenset(
    {EntryType.COMPLETE_RUN, EntryType.FAIL_RUN, EntryType.CANCEL_RUN, EntryType.RUN_ABORTED}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded entry: its place and time, who caused it, and what happened.

    `cause` is the seq of the event whose delivery made a command; None for events. `callsite` is given for
    commands that a line of the script made.
    """

    seq: Seq
    time: TimeMs
    body: Body
    cause: Seq | None = None
    callsite: Callsite | None = None
