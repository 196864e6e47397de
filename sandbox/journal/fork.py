"""How much of an ended run's history a fork reuses: pure, and the only definition of it.

A Matching is driven by whoever executes the fork's script. `next` says which event of the parent is delivered
next, `made` is told each command that the script made at it, `settle` closes the event. When `next` has
nothing more, `rest` gives the outcomes that are reused though the script has not seen them yet.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from heapq import heappop, heappush
from typing import Protocol

from sandbox.journal import entries as e
from sandbox.journal.codec import TYPE_NAMES, TYPE_OF, decode_body, encode_body
from sandbox.journal.entries import DELIVERED_TYPES, END_TYPES, EntryType
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Json, RunId, Seq, TimeMs
from sandbox.journal.replay import Recorded

DROPPED_SHOWN_MAX = 1_000
"""Signals and firings that a report lists; a longer list is cut."""
_COMPARED = frozenset({EntryType.SCHEDULE_TOOL_CALL, EntryType.START_TIMER, EntryType.SIGNAL_AWAITED})
_Key = tuple[Json, ...]


class ParentEntry(Recorded, Protocol):
    """A stored entry of the parent."""

    @property
    def time(self) -> TimeMs: ...
    @property
    def fire_at(self) -> TimeMs | None: ...


class Fate(Enum):
    """What becomes of a call that the fork makes."""

    REUSED = "its recorded outcome is reused"
    ANEW = "it is made like any other call"
    AGAIN = "it was begun and lost, and may be repeated: made with the key that it had"
    UNKNOWN = "it was begun and lost, and may not be repeated: its outcome is not known"


@dataclass(frozen=True, slots=True)
class Match:
    """The parent's command that a command of the fork is."""

    seq: Seq
    fire_at: TimeMs | None = None
    """Timers keep the parent's."""
    fate: Fate = Fate.REUSED
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Reused:
    """An event to append to the fork's journal. time None: it is the fork's own, of the moment of its append."""

    type: EntryType
    body: bytes
    time: TimeMs | None


@dataclass(frozen=True, slots=True)
class _Step:
    """A command of the parent that is compared."""

    entry: ParentEntry
    n: int
    key: _Key
    within: bool
    """False: it stands behind the place where matching ends."""


def idempotency_key(run: RunId, call: int, body: bytes) -> str:
    """The key that goes with each attempt of a call, from the body of its schedule_tool_call."""
    if b'"idempotency_key":' in body:  # or only a value that looks like it
        scheduled, _ = decode_body(EntryType.SCHEDULE_TOOL_CALL, body)
        if isinstance(scheduled, e.ScheduleToolCall) and scheduled.idempotency_key is not None:
            return scheduled.idempotency_key
    return f"{run}/{call}"


class Matching:
    """Errors of the constructor: ImpossibleEntry when the parent's journal cannot be read.

    Limits: linear in the parent's journal; what is held back at the same time is kept in a heap.
    """

    def __init__(self, run: RunId, parent: Sequence[ParentEntry], at: Seq | None = None) -> None:
        self.over = False
        self._run = run
        self._at = at
        self._parent = parent
        self._cancel = next((x.seq for x in parent if x.type == EntryType.CANCEL_REQUESTED), None)
        events_end = self._events_end()
        self._steps = list(self._read_steps(events_end))
        self._made = {
            step.n: step.entry for step in self._steps if step.entry.type == EntryType.SCHEDULE_TOOL_CALL
        }
        self._outcomes = dict(self._read_outcomes())
        self._events = [x for x in parent[1:] if x.type in DELIVERED_TYPES and x.seq < events_end]
        self._position = 0
        self._compared = 0
        self._ending = False
        self._unused: dict[_Key, deque[_Step]] = {}
        self._calls: dict[int, int] = {}
        """The parent's call -> the fork's; likewise for timers."""
        self._timers: dict[int, int] = {}
        self._cleared: set[int] = set()
        self._delays: dict[int, float] = {}
        self._held: dict[tuple[EntryType, int], ParentEntry] = {}
        self._ready: list[tuple[Seq, ParentEntry]] = []
        self._done: set[Seq] = set()
        """Events of the parent that the fork has, or that say nothing to it."""
        self._lost: list[tuple[int, int]] = []
        self._counts = {"calls": 0, "signals": 0, "timers": 0}
        self._diverged: Json = None

    # -- Reading the parent

    def _events_end(self) -> Seq:
        """Events below it are delivered."""
        ends = [Seq(len(self._parent))] if self._cancel is None else [self._cancel]
        if self._at is not None:
            cause = self._parent[self._at].cause
            ends.append(self._at if cause is None else Seq(cause + 1))
        return min(ends)

    def _read_steps(self, events_end: Seq) -> Iterator[_Step]:
        """What is compared, in command order: that of the causes, not of the seqs of events that came meanwhile."""
        delays: dict[int, float] = {}
        by_command = self._at is not None and self._parent[self._at].cause is not None
        for entry in self._parent:
            if entry.type in _COMPARED and entry.cause is not None:
                n, key, _ = _compared(entry, delays)
                before = not by_command or self._at is None or entry.seq < self._at
                yield _Step(entry, n, key, entry.cause < events_end and before)

    def _read_outcomes(self) -> Iterator[tuple[int, tuple[ParentEntry, e.ToolCallCompleted]]]:
        for entry in self._parent:
            if entry.type == EntryType.TOOL_CALL_COMPLETED:
                body, _ = decode_body(entry.type, entry.body)
                if isinstance(body, e.ToolCallCompleted):
                    yield body.call, (entry, body)

    # -- Delivering

    def next(self) -> Reused | None:
        """The event that the fork's script gets next; None: from here on the fork is an ordinary run."""
        if self.over:
            return None
        while self._ready:
            entry = heappop(self._ready)[1]
            if not self._says_nothing(entry, _number(entry)):
                return self._deliver(entry)
        while self._position < len(self._events):
            entry = self._events[self._position]
            self._position += 1
            if entry.type == EntryType.SIGNAL_RECEIVED:
                return self._deliver(entry)
            n = _number(entry)
            made = self._calls if entry.type == EntryType.TOOL_CALL_COMPLETED else self._timers
            if n not in made:
                self._held[entry.type, n] = entry
            elif not self._says_nothing(entry, n):
                return self._deliver(entry)
        self.over = True
        return None

    def _says_nothing(self, entry: ParentEntry, n: int) -> bool:
        """A firing of a timer that the fork has cleared, or an outcome that is not reused."""
        if entry.type == EntryType.TIMER_FIRED:
            if self._timers[n] not in self._cleared:
                return False
            self._done.add(entry.seq)
            return True
        return self._fate(n) is not Fate.REUSED

    def _deliver(self, entry: ParentEntry) -> Reused:
        self._done.add(entry.seq)
        body, _ = decode_body(entry.type, entry.body)
        match body:
            case e.ToolCallCompleted():
                self._counts["calls"] += 1
                body = replace(body, call=self._calls[body.call], reused=entry.seq)
            case e.TimerFired():
                self._counts["timers"] += 1
                body = replace(body, timer=self._timers[body.timer], reused=entry.seq)
            case e.SignalReceived():
                self._counts["signals"] += 1
                body = replace(body, reused=entry.seq)
            case _:
                raise ImpossibleEntry(f"entry {entry.seq} of the parent is not reused")
        return Reused(entry.type, encode_body(body), entry.time)

    # -- Comparing

    def made(self, type_: EntryType, body: bytes) -> Match | None:
        """The parent's command that this one is, if it is one. Commands come in the order in which they were made."""
        if type_ == EntryType.TIMER_CLEARED:
            self._cleared.add(_number_of(type_, body, "timer"))
        if type_ not in _COMPARED or self.over:
            return None
        n, key, line = _compared_body(type_, body, self._delays)
        step = None
        if not self._ending:
            step = self._next_step(key)
            if step is None:
                self._differ(key, body, type_, line)
        if step is None and self._ending and self._unused.get(key):
            step = self._unused[key].popleft()
        return None if step is None else self._match(step, n)

    def settle(self) -> None:
        """The event's microtasks are drained: after the event of the first difference matching has ended."""
        self.over = self.over or self._ending

    def _next_step(self, key: _Key) -> _Step | None:
        if self._compared == len(self._steps):
            return None
        step = self._steps[self._compared]
        if step.key != key or not step.within:
            return None
        self._compared += 1
        return step

    def _differ(self, key: _Key, body: bytes, type_: EntryType, line: int | None) -> None:
        self._ending = True
        left = self._steps[self._compared :]
        expected = left[0] if left else None
        for step in left:
            if expected is None or step.entry.cause != expected.entry.cause:
                break
            if step.within and step.entry.type == EntryType.SCHEDULE_TOOL_CALL:
                self._unused.setdefault(step.key, deque()).append(step)
        if expected is None or expected.key != key:
            place = self._end() if expected is None else expected.entry
            shown = _shown(place.type, place.body, () if expected is None else expected.key)
            actual = _shown(type_, body, key)
            self._diverged = {"seq": place.seq, "line": line, "expected": shown, "actual": actual}

    def _end(self) -> ParentEntry:
        """Where the parent's course ends."""
        if self._cancel is not None:
            return self._parent[self._cancel]
        return next((x for x in reversed(self._parent) if x.type in END_TYPES), self._parent[-1])

    def _match(self, step: _Step, n: int) -> Match:
        seq = step.entry.seq
        if step.entry.type == EntryType.SIGNAL_AWAITED:
            return Match(seq)
        if step.entry.type == EntryType.START_TIMER:
            self._timers[step.n] = n
            self._release(EntryType.TIMER_FIRED, step.n)
            return Match(seq, step.entry.fire_at)
        self._calls[step.n] = n
        fate = self._fate(step.n)
        if fate is Fate.REUSED:
            self._release(EntryType.TOOL_CALL_COMPLETED, step.n)
        elif fate is Fate.UNKNOWN:
            self._lost.append((step.n, n))
        return Match(seq, None, fate, self._key(step, fate))

    def _release(self, type_: EntryType, n: int) -> None:
        held = self._held.pop((type_, n), None)
        if held is not None:
            heappush(self._ready, (held.seq, held))

    def _fate(self, call: int) -> Fate:
        entry, outcome = self._outcomes.get(call, (None, None))
        if entry is not None and entry.seq == self._at:
            return Fate.ANEW
        name = None if outcome is None or outcome.error is None else outcome.error.name
        if outcome is not None and outcome.attempts == 0 and name == "CancelledError":
            return Fate.ANEW
        after_cancel = entry is not None and self._cancel is not None and entry.seq > self._cancel
        if entry is not None and not (name == "OutcomeUnknownError" and after_cancel):
            return Fate.REUSED
        return Fate.AGAIN if self._scheduled(call).policy.idempotent else Fate.UNKNOWN

    def _scheduled(self, call: int) -> e.ScheduleToolCall:
        body, _ = decode_body(EntryType.SCHEDULE_TOOL_CALL, self._made[call].body)
        if not isinstance(body, e.ScheduleToolCall):
            raise ImpossibleEntry(f"call {call} of the parent was never made")
        return body

    def _key(self, step: _Step, fate: Fate) -> str | None:
        """A call that may have taken effect keeps its key as long as it has no outcome."""
        outcome = self._outcomes.get(step.n)
        if outcome is not None and outcome[0].seq == self._at:
            return None
        if fate is Fate.AGAIN:
            return idempotency_key(self._run, step.n, step.entry.body)
        return self._scheduled(step.n).idempotency_key if fate is Fate.ANEW else None

    # -- The end of it

    def rest(self) -> list[Reused]:
        """Once matching is over: the other recorded outcomes of matched calls, then those that are not known."""
        left = sorted(
            entry.seq
            for call, (entry, _) in self._outcomes.items()
            if call in self._calls and entry.seq not in self._done and self._fate(call) is Fate.REUSED
        )
        return [self._deliver(self._parent[seq]) for seq in left] + [
            self._unknown(*lost) for lost in self._lost
        ]

    def _unknown(self, parents: int, n: int) -> Reused:
        outcome = self._outcomes.get(parents)
        message = "the call was begun in the parent, and whether it took effect is not known"
        body = e.ToolCallCompleted(
            n,
            None,
            e.ToolFailure("OutcomeUnknownError", None, message),
            1 if outcome is None else outcome[1].attempts,
            None if outcome is None else outcome[1].begun_at,
        )
        return Reused(EntryType.TOOL_CALL_COMPLETED, encode_body(body), None)

    def report(self) -> dict[str, Json]:
        """What is reused, what is not, and where the courses part. Complete after `rest`."""
        return {
            "reused": {**self._counts},
            "dropped": list(self._dropped()),
            "diverged_at": self._diverged,
        }

    def _dropped(self) -> Iterable[Json]:
        shown = 0
        for entry in self._parent:
            if entry.seq in self._done or shown == DROPPED_SHOWN_MAX:
                continue
            if entry.type in {EntryType.SIGNAL_RECEIVED, EntryType.TIMER_FIRED}:
                body, _ = decode_body(entry.type, entry.body)
                found: dict[str, Json] = {"seq": entry.seq, "type": TYPE_NAMES[entry.type]}
                if isinstance(body, e.SignalReceived):
                    found |= {"name": body.name, "id": body.id}
                elif isinstance(body, e.TimerFired):
                    found["timer"] = body.timer
                shown += 1
                yield found


def _compared(entry: ParentEntry, delays: dict[int, float]) -> tuple[int, _Key, int | None]:
    return _compared_body(entry.type, entry.body, delays)


def _compared_body(type_: EntryType, body: bytes, delays: dict[int, float]) -> tuple[int, _Key, int | None]:
    """Number, what is compared, and line. `delays` learns those of timers: a wait's timeout is its timer's."""
    decoded, site = decode_body(type_, body)
    line = None if site is None else site.line
    match decoded:
        case e.ScheduleToolCall():
            return decoded.call, (TYPE_NAMES[type_], decoded.tool, decoded.args.sha256), line
        case e.StartTimer():
            delays[decoded.timer] = decoded.delay
            return decoded.timer, (TYPE_NAMES[type_], decoded.why, decoded.delay), line
        case e.SignalAwaited():
            timeout = None if decoded.timer is None else delays.get(decoded.timer)
            return decoded.wait, (TYPE_NAMES[type_], decoded.name, timeout, decoded.from_), line
        case _:
            raise ImpossibleEntry(f"{TYPE_NAMES[type_]} is not compared")


def _number(entry: ParentEntry) -> int:
    return _number_of(
        entry.type, entry.body, "call" if entry.type == EntryType.TOOL_CALL_COMPLETED else "timer"
    )


def _number_of(type_: EntryType, body: bytes, field: str) -> int:
    return int(getattr(decode_body(type_, body)[0], field))


def _shown(type_: EntryType, body: bytes, key: _Key) -> Json:
    """A command, or the end of the parent, as a report shows it."""
    decoded, _ = decode_body(type_, body)
    shown: dict[str, Json] = {"type": TYPE_NAMES[TYPE_OF[type(decoded)]]}
    match decoded:
        case e.ScheduleToolCall(args=args):
            big: Json = {"sha256": args.sha256, "bytes": args.bytes}
            shown |= {"tool": decoded.tool, "args": big if args.text is None else json.loads(args.text)}
        case e.StartTimer():
            shown |= {"why": decoded.why, "delay": decoded.delay}
        case e.SignalAwaited():
            shown |= {"name": decoded.name, "timeout": key[2], "from": decoded.from_}
        case e.FailRun():
            shown |= {"name": decoded.error.name, "message": decoded.error.message}
        case e.CancelRequested():
            shown["reason"] = decoded.reason
        case _:
            pass
    return shown
