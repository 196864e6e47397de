"""A world in virtual time around one script: its clock jumps to whatever happens next, and nothing is called.

The journal that comes out is that of a real run: the same drafts, codec and causes. Calls are answered by a
scenario; timers fire when they are due; signals come when the scenario says. Real time is limited.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sandbox.activation.agenda import Agenda, Occurrence
from sandbox.activation.budget import Budget
from sandbox.activation.contracts import Contracts
from sandbox.activation.drafts import Emission, withdrawn_body
from sandbox.activation.ports import Isolates
from sandbox.activation.reenacted import Play, Reaction, Reenacted
from sandbox.activation.scenario import Answer, Answers, Decision, Failure, Scenario
from sandbox.activation.texts import Texts
from sandbox.activation.unanswered import UNKNOWN, Missing, denied, no_answer, stopped
from sandbox.isolate.api import LimitExceeded
from sandbox.journal.codec import TYPE_OF, decode_body, encode_body, value_in
from sandbox.journal.entries import (
    DELIVERED_TYPES,
    END_TYPES,
    Actor,
    ApprovalDecided,
    CancelRequested,
    CancelRun,
    EntryType,
    Event,
    RunAborted,
    RunStarted,
    ScheduleToolCall,
    SignalReceived,
    TimerFired,
    ToolCallCompleted,
    ToolFailure,
    Value,
)
from sandbox.journal.ids import Seq, Sha256, TimeMs
from sandbox.journal.messages import bounded
from sandbox.store.approvals import denial
from sandbox.store.interface import CommandDraft, StoredEntry

REAL_TIME_S = 30.0
STOP_MS = 30_000
"""A call that was told to stop has an outcome by then, if only that it is not known."""
CLEANUP_MS = 300_000
TESTER = Actor("system", "test")


@dataclass(slots=True)
class _Call:
    """A call without outcome. `outcome` None: it waits for a decision that nobody has made."""

    tool: str
    outcome: Occurrence | None


@dataclass(slots=True)
class Played:
    """What came out. `stopped_at`: the call that ended a what-if; `exhausted`: real time ran out."""

    entries: list[StoredEntry]
    missing: list[Missing] = field(default_factory=list)
    unused: list[Answer] = field(default_factory=list)
    stopped_at: Missing | None = None
    exhausted: bool = False


class World:
    """One run from its start to its end, or to where nothing can happen any more.

    `unanswered`: a call without answer fails with `no_answer`, or stops everything.
    `contracts`: what tools take is checked, as before a call is sent.
    """

    def __init__(
        self,
        play: Play,
        started: RunStarted,
        scenario: Scenario,
        texts: Texts,
        *,
        unanswered: Literal["fails", "stops"] = "fails",
        contracts: Contracts | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._play = play
        self._started = started
        self._scenario = scenario
        self._texts = texts
        self._unanswered = unanswered
        self._contracts = contracts or Contracts([])
        self._clock = clock or asyncio.get_running_loop().time
        self._answers = Answers(scenario)
        self._agenda = Agenda()
        self._inbox: deque[StoredEntry] = deque()
        self._calls: dict[int, _Call] = {}
        self._timers: dict[int, Occurrence] = {}
        self._time = scenario.start
        self._budget = Budget(play.limits, 0)
        self._cancel: tuple[StoredEntry, CancelRequested] | None = None
        self._over = False
        """The script executes nothing more: a limit ended it. Its calls are settled, then the run ends."""
        self._ended = False
        self._played = Played([])

    async def run(
        self, isolates: Isolates, *, cancel: tuple[TimeMs, CancelRequested] | None = None
    ) -> Played:
        """Errors: ChildDied, SandboxFault, ImpossibleEntry."""
        gives_up = self._clock() + REAL_TIME_S
        self._event(self._started)
        self._send_signals()
        if cancel is not None:
            self._agenda.add(cancel[0], cancel[1])
        script = await Reenacted.open(self._play, isolates, self._texts)
        try:
            while not self._ended and self._played.stopped_at is None:
                if self._clock() > gives_up:
                    self._played.exhausted = True
                    break
                if self._inbox:
                    await self._deliver(script, self._inbox.popleft())
                elif not self._next():
                    break
        finally:
            await script.close()
        self._played.unused = self._answers.unused
        return self._played

    def _send_signals(self) -> None:
        """All signals with their times; an id that was given before is a duplicate, as in a real run."""
        seen: set[str] = set()
        for index, signal in enumerate(self._scenario.signals):
            number = signal.id if signal.id is not None else f"test-{index + 1}"
            if number in seen:
                continue
            seen.add(number)
            payload = self._texts.value(signal.payload)
            received = SignalReceived(signal.name, payload, number, None, Actor("key", "test"))
            self._agenda.add(TimeMs(self._scenario.start + signal.at), received, order=signal.order)

    # -- What happens

    def _next(self) -> bool:
        """Let the next thing happen; False when nothing can."""
        at = self._agenda.next_time
        if at is None:
            return False
        if at >= self._started.deadline and self._cancel is None:
            self._time = max(self._time, self._started.deadline)
            self._event(CancelRequested(reason="ttl"))
            return True
        occurrence = self._agenda.next()
        assert occurrence is not None
        self._time = max(self._time, occurrence.time)
        for event in occurrence.events:
            self._event(event)
        return True

    def _event(self, event: Event) -> None:
        match event:
            case ToolCallCompleted():
                del self._calls[event.call]
            case TimerFired():
                self._timers.pop(event.timer, None)
            case CancelRequested() if self._cancel is not None:
                return
            case _:
                pass
        kind = TYPE_OF[type(event)]
        entry = self._append(kind, self._time, None, None, encode_body(event))
        if isinstance(event, CancelRequested):
            self._cancel = (entry, event)
        if isinstance(event, RunAborted):
            self._ended = True
        if kind in DELIVERED_TYPES:
            self._inbox.append(entry)

    def _append(
        self, kind: EntryType, time: TimeMs, cause: Seq | None, fire_at: TimeMs | None, body: bytes
    ) -> StoredEntry:
        entry = StoredEntry(Seq(len(self._played.entries)), kind, time, cause, fire_at, body)
        self._played.entries.append(entry)
        return entry

    # -- What the script does

    async def _deliver(self, script: Reenacted, event: StoredEntry) -> None:
        if self._over:
            self._settle_end()
            return
        try:
            self._budget.check_cpu(event)
            reaction = await script.deliver([event])
            self._budget.cpu_us += reaction.cpu_us
            drafts = [emission.draft for emission in reaction.emissions]
            self._budget.check_history(len(self._played.entries), drafts, event)
        except LimitExceeded as error:
            self._exceeded(error, event)
            return
        self._take(reaction, event)

    def _take(self, reaction: Reaction, event: StoredEntry) -> None:
        own = self._own_calls()
        fire_at = [self._command(emission) for emission in reaction.emissions]
        for emission, at in zip(reaction.emissions, fire_at, strict=True):
            self._effect(emission.draft, at)
        if event.type == EntryType.CANCEL_REQUESTED:
            self._timers_end()
            self._stop(own, STOP_MS)
            self._stop(self._own_calls() - own, CLEANUP_MS)
        elif reaction.stage == "failing":
            self._withdraw_undecided(self._own_calls())

    def _own_calls(self) -> set[int]:
        return set(self._calls)

    def _command(self, emission: Emission) -> TimeMs | None:
        draft = emission.draft
        fire_at = None
        if draft.type == EntryType.START_TIMER:
            fire_at = draft.due if draft.due is not None else TimeMs(draft.time + (draft.delay_ms or 0))
        if emission.big_value is not None:
            self._texts.value(emission.big_value[1])
        self._append(draft.type, draft.time, draft.cause, fire_at, draft.body)
        self._ended = self._ended or draft.type in END_TYPES
        return fire_at

    def _effect(self, draft: CommandDraft, fire_at: TimeMs | None) -> None:
        if draft.type == EntryType.SCHEDULE_TOOL_CALL:
            self._schedule(draft)
        elif draft.type == EntryType.TOOL_CALL_CANCELLED:
            self._stop({draft.n}, STOP_MS)
        elif fire_at is not None:
            self._timers[draft.n] = self._agenda.add(fire_at, TimerFired(draft.n))
        elif draft.type == EntryType.TIMER_CLEARED and draft.n in self._timers:
            self._timers.pop(draft.n).dropped = True

    # -- Calls

    def _schedule(self, draft: CommandDraft) -> None:
        args = value_in(draft.body)
        assert args is not None  # every call has arguments and a tool
        assert draft.name is not None
        tool, call = draft.name, draft.n
        decision = self._decision(tool, args.sha256) if draft.gated else "approved"
        pending = self._calls[call] = _Call(tool, None)
        if decision is None:
            if self._unanswered == "stops":
                self._missed(draft, tool, args)
            else:
                self._await_decision(draft, pending)
            return
        if draft.gated:
            self._event(ApprovalDecided(call, decision, None, TESTER))
        if decision == "denied":
            self._answers.take(tool, args.sha256)
            self._complete_now(call, pending, denied(tool))
            return
        refused = self._refused(tool, args)
        if refused is not None:
            self._complete_now(call, pending, refused)
            return
        answer = self._answers.take(tool, args.sha256)
        if answer is None:
            missing = self._missed(draft, tool, args)
            if self._unanswered != "stops":
                self._complete_now(call, pending, no_answer(missing))
            return
        self._answered(draft, pending, answer)

    def _refused(self, tool: str, args: Value) -> Failure | None:
        """Arguments that the tool does not take; what was recorded for them says so itself."""
        answer = self._answers.peek(tool, args.sha256)
        if answer is not None and answer.source == "cassette":
            return None
        return self._contracts.refused(tool, self._texts.text(args))

    def _missed(self, draft: CommandDraft, tool: str, args: Value) -> Missing:
        missing = Missing(draft.n, tool, self._texts.text(args), draft.line)
        self._played.missing.append(missing)
        if self._unanswered == "stops":
            self._played.stopped_at = self._played.stopped_at or missing
        return missing

    def _decision(self, tool: str, args: Sha256) -> Decision | None:
        """What the scenario says; else what became of the recorded call that answers this one."""
        told = self._scenario.approvals.get(tool)
        if told is not None:
            return told
        answer = self._answers.peek(tool, args)
        if answer is None or answer.source != "cassette":
            return None
        denied = answer.error is not None and answer.error.name == "ApprovalDeniedError"
        return "denied" if denied else "approved"

    def _await_decision(self, draft: CommandDraft, pending: _Call) -> None:
        body, _ = decode_body(draft.type, draft.body)
        assert isinstance(body, ScheduleToolCall)
        expires = body.policy.expires_ms
        if expires is not None:
            decided = ApprovalDecided(draft.n, "expired", None, None)
            pending.outcome = self._agenda.add(
                TimeMs(draft.time + expires),
                decided,
                ToolCallCompleted(draft.n, None, denial(pending.tool, decided), attempts=0),
            )

    def _answered(self, draft: CommandDraft, pending: _Call, answer: Answer) -> None:
        after, result, error = answer.after, answer.result, answer.error
        if draft.timeout_ms is not None and after > draft.timeout_ms:
            after, result = draft.timeout_ms, None
            error = Failure("ToolError", "timeout", f"{pending.tool} did not answer within {after} ms")
        withdrawn = error is not None and error.name == "CancelledError" and answer.source == "cassette"
        pending.outcome = self._agenda.add(
            TimeMs(self._time + after),
            ToolCallCompleted(
                call=draft.n,
                result=None if result is None else self._texts.value(result),
                error=None if error is None else self._failure(error),
                attempts=0 if withdrawn else 1,
                begun_at=None if withdrawn else self._time,
            ),
            order=answer.order,
        )

    def _complete_now(self, call: int, pending: _Call, error: Failure) -> None:
        attempts = 0 if error.name == "ApprovalDeniedError" else 1
        event = ToolCallCompleted(call, None, self._failure(error), attempts=attempts)
        if attempts == 0:
            self._event(event)
        else:
            pending.outcome = self._agenda.add(self._time, event)

    def _failure(self, error: Failure) -> ToolFailure:
        data = None if error.data is None else self._texts.value(error.data)
        return bounded(ToolFailure(error.name, error.code, error.message, data, error.retryable))

    # -- Stopping

    def _stop(self, calls: set[int], within_ms: int) -> None:
        """Tell calls to stop: those that wait for a decision are withdrawn, others have an outcome soon."""
        self._withdraw_undecided(calls)
        latest = TimeMs(self._time + within_ms)
        for number in sorted(calls & self._own_calls()):
            pending = self._calls[number]
            if pending.outcome is not None and pending.outcome.time > latest:
                pending.outcome.dropped = True
                event = stopped(pending.outcome.events[-1], self._failure(UNKNOWN))
                pending.outcome = self._agenda.add(latest, event)

    def _withdraw_undecided(self, calls: set[int]) -> None:
        for number in sorted(calls):
            pending = self._calls.get(number)
            if pending is None or not self._undecided(pending):
                continue
            if pending.outcome is not None:
                pending.outcome.dropped = True
            body, _ = decode_body(EntryType.TOOL_CALL_COMPLETED, withdrawn_body(number))
            assert isinstance(body, ToolCallCompleted)
            self._event(body)

    def _undecided(self, pending: _Call) -> bool:
        return pending.outcome is None or isinstance(pending.outcome.events[0], ApprovalDecided)

    def _timers_end(self) -> None:
        for occurrence in self._timers.values():
            occurrence.dropped = True
        self._timers.clear()

    # -- Limits

    def _exceeded(self, error: LimitExceeded, event: StoredEntry) -> None:
        self._over = True
        self._timers_end()
        if self._cancel is None:
            seq = event.seq if error.event_seq is None else Seq(error.event_seq)
            self._event(
                CancelRequested(
                    reason="limit", limit=error.limit, allowed=error.allowed, used=error.used, event=seq
                )
            )
        self._stop(self._own_calls(), STOP_MS)
        self._settle_end()

    def _settle_end(self) -> None:
        if self._calls or self._ended:
            return
        assert self._cancel is not None
        entry, cancel = self._cancel
        if cancel.reason == "limit":
            self._event(RunAborted(cancel.limit or "unknown", cancel.allowed, cancel.used))
            return
        self._append(EntryType.CANCEL_RUN, entry.time, entry.seq, None, encode_body(CancelRun(cancel.reason)))
        self._ended = True
