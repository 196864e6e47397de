"""What a fork begins with: its script executed against the parent's journal for as long as the two do the same.

Nothing is appended here, so a plan and a fork are made by the same code: one isolate, one event after the other,
with `sandbox.journal.fork` deciding what comes next and what is reused.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from sandbox.activation.budget import Budget
from sandbox.activation.drafts import Emission, PinnedTool, emission_of, withdrawn_body
from sandbox.activation.ports import Blobs, Isolates
from sandbox.activation.values import VALUE_EVENTS, deliverable
from sandbox.isolate.api import Delivery, LimitExceeded, RunSetup
from sandbox.journal.codec import decode_body, encode_body, value_in
from sandbox.journal.entries import (
    CancelRequested,
    EntryType,
    Limits,
    ScheduleToolCall,
    SignalReceived,
    TimerFired,
    ToolCallCompleted,
)
from sandbox.journal.errors import ImpossibleEntry, PlatformFault
from sandbox.journal.fork import Matching, Reused
from sandbox.journal.ids import Json, NamespaceId, Seq, TimeMs
from sandbox.store.forks import ForkEntry, ForkPending
from sandbox.store.interface import FROM_START, CommandDraft, PendingKind, RunStatus, StoredEntry

ENDINGS = {
    EntryType.COMPLETE_RUN: RunStatus.COMPLETED,
    EntryType.FAIL_RUN: RunStatus.FAILED,
}


_FIRST = Seq(0)


class HistoryGone(PlatformFault):
    """The parent's journal is gone, or has lost a value that the fork would have to see again."""

    code = "history_unavailable"


@dataclass(frozen=True, slots=True)
class ForkTask:
    """Everything that the prefix depends on; the same again gives the same prefix."""

    namespace: NamespaceId
    setup: RunSetup
    started: StoredEntry
    """The fork's run_started."""
    limits: Limits
    tools: Mapping[str, PinnedTool]
    matching: Matching
    cpu_factor: int = 1


@dataclass(slots=True)
class Prefix:
    """Entries from seq 1 on, and what the run is after the last of them."""

    entries: list[ForkEntry] = field(default_factory=list)
    big_values: list[Emission] = field(default_factory=list)
    delivered: Seq = FROM_START
    last_event: Seq = _FIRST
    commands: int = 0
    calls: int = 0
    cpu_us: int = 0
    activations: int = 0
    signals: list[tuple[str, Seq]] = field(default_factory=list)
    cancel_seq: Seq | None = None
    ends: RunStatus | None = None
    progress: bytes | None = None
    pending: dict[tuple[PendingKind, int], tuple[ForkPending, CommandDraft]] = field(default_factory=dict)
    """With the command that made each."""
    report: dict[str, Json] = field(default_factory=dict)

    @property
    def next_seq(self) -> Seq:
        return Seq(len(self.entries) + 1)


Source = Callable[[], Awaitable[str | None]]


async def make_prefix(
    task: ForkTask, *, isolates: Isolates, blobs: Blobs, source: Source | None = None
) -> Prefix:
    """Execute the fork's script until matching has ended. `source` gives the script as written, for code frames.

    Errors: HistoryGone, ImpossibleEntry; Unavailable and ChildDied (try again).
    """
    return await _Making(task, blobs, source).run(isolates)


class _Making:
    def __init__(self, task: ForkTask, blobs: Blobs, source: Source | None) -> None:
        self._task = task
        self._blobs = blobs
        self._source = source
        self._prefix = Prefix()
        self._within = Budget(task.limits, 0)
        self._times: dict[Seq, TimeMs] = {}
        self._last_time = task.started.time
        self._cancelled: set[int] = set()
        self._stage = "running"

    async def run(self, isolates: Isolates) -> Prefix:
        isolate = await isolates.open(self._task.setup)
        matching = self._task.matching
        event: StoredEntry | None = self._task.started
        try:
            while event is not None and self._stage != "ended":
                wire = await deliverable(event, self._task.namespace, self._blobs)
                self._within.check_cpu(event)
                delivery = await isolate.deliver([wire], cpu_factor=self._task.cpu_factor)
                await self._take(event, delivery)
                matching.settle()
                reused = None if self._stage == "ended" else matching.next()
                event = None if reused is None else self._append(reused)
        except LimitExceeded as error:
            self._prefix.cpu_us += error.cpu_us
            self._rest()
            self._exceeded(error)
        else:
            self._rest()
        finally:
            await isolate.close()
        self._withdraw()
        self._prefix.report = matching.report()
        return self._prefix

    async def _take(self, event: StoredEntry, delivery: Delivery) -> None:
        """Record what the script did at an event."""
        prefix = self._prefix
        self._times[event.seq] = event.time
        self._within.cpu_us += delivery.cpu_us
        source = None
        if self._source is not None and any(made["type"] == "fail_run" for made in delivery.commands):
            source = await self._source()
        emissions = []
        for emitted in delivery.commands:
            if emitted["cause"] not in self._times:
                raise ImpossibleEntry(
                    f"a command has the cause {emitted['cause']!r}, which was not delivered"
                )
            time = self._times[emitted["cause"]]
            emissions.append(emission_of(emitted, time=time, tools=self._task.tools, source=source))
        self._within.check_history(prefix.next_seq, [emission.draft for emission in emissions], event)
        for emission in emissions:
            self._command(emission)
        for number in delivery.waits_done:
            prefix.pending.pop((PendingKind.WAIT, number), None)
        prefix.delivered = event.seq
        prefix.cpu_us += delivery.cpu_us
        prefix.activations += 1
        self._stage = delivery.stage

    def _command(self, emission: Emission) -> None:
        prefix, draft = self._prefix, emission.draft
        match = self._task.matching.made(draft.type, draft.body)
        if match is not None and match.idempotency_key is not None:
            draft = _with_key(draft, match.idempotency_key)
        fire_at = draft.due if match is None or match.fire_at is None else match.fire_at
        seq = prefix.next_seq
        prefix.entries.append(
            ForkEntry(draft.type, draft.time, draft.cause, draft.body, fire_at, draft.delay_ms, draft.n)
        )
        prefix.commands += 1
        prefix.progress = emission.progress or prefix.progress
        prefix.ends = ENDINGS.get(draft.type, prefix.ends)
        if emission.big_value is not None:
            prefix.big_values.append(emission)
        match draft.type:
            case EntryType.SCHEDULE_TOOL_CALL:
                prefix.calls += 1
                self._pend(PendingKind.CALL, draft, seq)
            case EntryType.TOOL_CALL_CANCELLED:
                self._cancelled.add(draft.n)
            case EntryType.START_TIMER:
                self._pend(PendingKind.TIMER, draft, seq)
            case EntryType.TIMER_CLEARED:
                prefix.pending.pop((PendingKind.TIMER, draft.n), None)
            case EntryType.SIGNAL_AWAITED:
                self._pend(PendingKind.WAIT, draft, seq)
            case EntryType.SIGNAL_WAIT_CLEARED:
                prefix.pending.pop((PendingKind.WAIT, draft.n), None)
            case _:
                pass

    def _pend(self, kind: PendingKind, draft: CommandDraft, seq: Seq) -> None:
        row = ForkPending(
            kind,
            draft.n,
            seq,
            draft.name,
            draft.line,
            draft.route,
            draft.idempotent,
            draft.gated,
            draft.timeout_ms,
            draft.expires_ms,
            draft.pace,
        )
        self._prefix.pending[kind, draft.n] = (row, draft)

    def _append(self, event: Reused) -> StoredEntry:
        """Record an event, not before the one before it."""
        prefix = self._prefix
        seq = prefix.next_seq
        value = value_in(event.body) if event.type in VALUE_EVENTS else None
        if value is not None and value.redacted:
            raise HistoryGone("a value that the fork would see again was redacted in the parent's journal")
        self._last_time = max(self._last_time, event.time or self._last_time)
        time = None if event.time is None else self._last_time
        entry = ForkEntry(event.type, time, None, event.body)
        body, _ = decode_body(event.type, event.body)
        match body:
            case ToolCallCompleted():
                entry = replace(entry, n=body.call)
                prefix.pending.pop((PendingKind.CALL, body.call), None)
            case TimerFired():
                entry = replace(entry, n=body.timer)
                prefix.pending.pop((PendingKind.TIMER, body.timer), None)
            case SignalReceived():
                entry = replace(entry, signal_id=body.id)
                prefix.signals.append((body.id, seq))
            case _:
                pass
        prefix.entries.append(entry)
        prefix.last_event = seq
        return StoredEntry(seq, event.type, self._last_time, None, None, event.body)

    # -- The end of it

    def _rest(self) -> None:
        for outcome in self._task.matching.rest():
            self._append(outcome)

    def _exceeded(self, error: LimitExceeded) -> None:
        """The script is over: its run ends as any that exceeds a limit, without another attempt."""
        body = CancelRequested(
            reason="limit",
            limit=error.limit,
            allowed=error.allowed,
            used=error.used,
            event=None if error.event_seq is None else Seq(error.event_seq),
        )
        self._prefix.cancel_seq = self._prefix.next_seq
        self._append(Reused(EntryType.CANCEL_REQUESTED, encode_body(body), None))

    def _withdraw(self) -> None:
        """Calls that nobody will ever make: cancelled by the script, or left by one that is over."""
        over = self._stage == "failing" or self._prefix.cancel_seq is not None
        for kind, n in list(self._prefix.pending):
            if kind is PendingKind.CALL and (over or n in self._cancelled):
                self._append(Reused(EntryType.TOOL_CALL_COMPLETED, withdrawn_body(n), None))


def _with_key(draft: CommandDraft, key: str) -> CommandDraft:
    body, callsite = decode_body(draft.type, draft.body)
    if not isinstance(body, ScheduleToolCall):
        raise TypeError("only calls have keys")
    return replace(draft, body=encode_body(replace(body, idempotency_key=key), callsite))
