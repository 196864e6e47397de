"""What must hold after every step of a simulation. Whatever breaks it is a bug of the engine."""

from collections import Counter
from collections.abc import Iterator, Sequence

from sandbox.journal import entries as e
from sandbox.journal.codec import TYPE_NAMES, TYPE_OF, decode_body
from sandbox.journal.entries import Entry
from sandbox.journal.fork import idempotency_key
from sandbox.journal.ids import RunId, TimeMs, WorkerId
from sandbox.journal.state import RunState, apply, delivery_order, fold
from sandbox.store.approvals import Decision
from sandbox.store.forks import ForkAppend
from sandbox.store.interface import (
    CommandAppend,
    CommandVerdict,
    DueWhy,
    EventAppend,
    EventOutcome,
    EventVerdict,
    Guard,
    PendingKind,
    Route,
    RunStatus,
)
from sandbox.store.memory import Journals, decoded
from sandbox.store.memory_runs import MemoryRow, MemoryRun
from tests.simulation.ends import check_end
from tests.simulation.lineage import check_children, check_fork
from tests.simulation.script import WORKFLOWS
from tests.simulation.verdicts import Books, Broken, require

SOON_MS = 15_000
"""Once nothing goes wrong any more, what has happened is seen within this time, hint or not."""
CALL_MS = 75_000
"""So long may a call of the server be under way: it takes 22 s, a dispatcher that leaves 6 s, a lease 30 s."""

__all__ = ["Broken", "Checks", "require"]


class Checks:
    """Its own books beside the store's: who was given which run, what was acknowledged, what took effect."""

    def __init__(self, journals: Journals, scripts: dict[RunId, str], counts: Counter[str]) -> None:
        self._journals = journals
        self._counts = counts
        self.books = Books(scripts)
        self.pairs: Counter[tuple[str, str]] = Counter()
        """(state, entry) of runs that have ended."""
        self._decoded: dict[RunId, list[Entry]] = {}
        self._owners: dict[RunId, tuple[WorkerId, int]] = {}
        self._waits: dict[str, TimeMs] = {}
        """Since when somebody should have seen to it."""
        self._settles: MemoryRow | None = None
        self._next_timer: MemoryRow | None = None
        self.dispatchers: set[str] = set()
        """The claims of those that live."""

    # -- Before and after each request to the store

    def before_event(self, event: EventAppend) -> None:
        """Remember what the event is about to settle."""
        run = self._journals.runs[event.namespace, event.run]
        kind = PendingKind(event.guard.value) if event.guard < Guard.DEADLINE else None
        self._settles = None if kind is None else run.pending.get((kind, event.n))
        timers = [row for row in run.pending.values() if row.kind is PendingKind.TIMER]
        self._next_timer = min(timers, key=lambda row: (row.due or 0, row.n), default=None)

    def _settled(self, event: EventAppend) -> None:
        """Whoever settles a call or fires a timer must have a reason that can be seen in its row."""
        row, now = self._settles, self._journals.time
        if event.guard >= Guard.DEADLINE:
            return
        require(row is not None, f"{event.guard.name.lower()} {event.n} is settled and was not pending")
        assert row is not None
        if event.guard is Guard.TIMER:
            require(row.due is not None and row.due <= now, f"timer {event.n} fires before its time")
            require(row is self._next_timer, f"timer {event.n} fires before {self._next_timer}")
            return
        require(event.attempt in {None, row.attempt}, f"call {row.n} is settled by a former attempt")
        body, _ = decode_body(event.type, event.body)
        assert isinstance(body, e.ToolCallCompleted)
        self._outcome(event.run, row, body, now)

    def _outcome(self, run: RunId, row: MemoryRow, body: e.ToolCallCompleted, now: TimeMs) -> None:
        if body.error is None or body.error.name == "ToolError":
            timeout = body.error is not None and body.error.code == "timeout"
            begun = now if row.begun_at is None else row.begun_at
            late = row.why is DueWhy.DEFERRAL and row.due is not None and row.due <= now
            late = late or (row.timeout_ms is not None and begun + row.timeout_ms <= now)
            require(not timeout or late, f"call {row.n} times out early")
            require(row.attempt > 0, f"call {row.n} has an outcome and was never begun")
        elif body.error.name == "OutcomeUnknownError":
            lease_over = row.lease_until is not None and row.lease_until <= now
            told = row.stopping or (row.due is not None and row.due <= now)
            require(lease_over or told, f"call {row.n} is given up though its lease holds")
        else:
            of_child = row.name in WORKFLOWS and (row.stopping or self._ended(row.claim_id))
            unbegun = row.attempt == 0 or row.deferred
            require(unbegun or of_child, f"call {row.n} is withdrawn though it has begun")

    def _ended(self, child: str | None) -> bool:
        return any(run == child and found.ended_at for (_, run), found in self._journals.runs.items())

    def after(self, name: str, args: Sequence[object], result: object) -> None:
        self._counts["steps"] += 1
        if name == "append_event" and isinstance(event := args[0], EventAppend):
            assert isinstance(result, EventVerdict)
            if result.outcome is not EventOutcome.APPENDED:
                self._counts[f"events refused: {result.outcome}"] += 1
            self._after_event(event, result)
            self.check(self._journals.runs[event.namespace, event.run])
        elif (name == "append_commands" and isinstance(append := args[0], CommandAppend)) or (
            name == "append_fork" and isinstance(append := args[0], ForkAppend)
        ):
            assert isinstance(result, CommandVerdict)
            self._by_its_owner(append, result)
        elif name == "decide_approval" and isinstance(decision := args[0], Decision):
            self.check(self._journals.runs[decision.namespace, decision.run])
        elif name == "reap_workers" and isinstance(result, int):
            self._counts["workers superseded"] += result
        elif name == "start_child":
            self._counts[f"children {result}"] += 1
        elif name == "claim_runs":
            assert isinstance(result, list)
            for claim in result:
                former = self._owners.get(claim.run, (WorkerId(0), 0))
                self._counts["runs taken over"] += former[1] > 0
                require(claim.owner_epoch > former[1], f"run {claim.run} is claimed with an old owner epoch")
                worker = args[0]
                assert isinstance(worker, int)
                self._owners[claim.run] = (WorkerId(worker), claim.owner_epoch)

    def _by_its_owner(self, append: CommandAppend | ForkAppend, verdict: CommandVerdict) -> None:
        if verdict.appended:
            run = self._journals.runs[append.namespace, append.run]
            if run.start.held and isinstance(append, CommandAppend) and self._journals.time < run.start.time:
                only_ends = [draft.type for draft in append.commands] in ([], [e.EntryType.CANCEL_RUN])
                require(only_ends, f"run {append.run} does something before its start")
            owner = (append.worker, append.owner_epoch)
            require(self._owners.get(append.run) == owner, f"a former owner appended to run {append.run}")
        else:
            self._counts["commands refused"] += 1
        self.check(self._journals.runs[append.namespace, append.run])

    def _after_event(self, event: EventAppend, verdict: EventVerdict) -> None:
        if verdict.outcome is not EventOutcome.APPENDED:
            return
        if event.guard is Guard.SIGNAL:
            self.books.signals.setdefault(event.run, set()).add(event.signal_id or "")
        if verdict.seq is None:
            self._counts["events held by forks"] += 1
            return
        self._settled(event)
        run = self._journals.runs[event.namespace, event.run]
        entry = run.entries[verdict.seq]
        require((entry.type, entry.body) == (event.type, event.body), "what was acknowledged is not recorded")

    # -- A run

    def check(self, run: MemoryRun) -> None:
        """The journal is one that a run can have, and what the store keeps beside it is its fold."""
        name = run.start.run
        known = self._decoded.setdefault(name, [])
        known += [decoded(entry) for entry in run.entries[len(known) :]]
        state = fold(known)
        if run.forking and run.ended_at is None:
            return  # the rest of its row comes with the last of what it reuses
        require(
            run.commands == sum(entry.cause is not None for entry in known), "commands are counted wrongly"
        )
        require(run.calls == state.calls_made, "calls are counted wrongly")
        status = run.status.name.lower()
        require(
            status in {state.status, "quarantined"}, f"run {name} is {status}, its journal {state.status}"
        )
        require(run.cancelling == (state.cancelling is not None), "whether it is cancelled differs")
        self._deadline(run)
        if status != state.status:
            return
        calls = {row.n for row in run.calls_pending()}
        if run.status is not RunStatus.ACTIVE:
            require(not run.pending, "something is pending after the end")
        elif run.delivered >= run.last_event:
            self._at_rest(run, state)
        require(calls <= set(range(1, state.calls_made + 1)), "a call is pending that was never made")

    def _deadline(self, run: MemoryRun) -> None:
        """Until a run is cancelled or ends its deadline is ahead, but for a quarantine."""
        if run.cancelling or run.ended_at is not None:
            return
        row = run.pending.get((PendingKind.DEADLINE, 0))
        ahead = None if run.status is RunStatus.QUARANTINED else run.start.time + run.start.ttl_ms
        require(row is not None and row.due == ahead, f"the deadline of {run.start.run}: {row}, not {ahead}")

    def _at_rest(self, run: MemoryRun, state: RunState) -> None:
        rows = {
            (row.kind, row.n): (row.seq, row.due if row.kind is PendingKind.TIMER else row.name)
            for row in run.pending.values()
            if row.kind in {PendingKind.CALL, PendingKind.TIMER, PendingKind.WAIT}
        }
        folded: dict[object, object] = {
            (PendingKind.CALL, n): (call.seq, call.tool) for n, call in state.calls.items()
        }
        folded |= {(PendingKind.TIMER, n): (timer.seq, timer.fire_at) for n, timer in state.timers.items()}
        folded |= {(PendingKind.WAIT, n): (wait.seq, wait.name) for n, wait in state.waits.items()}
        require(rows == folded, f"pending of {run.start.run} is not the fold: {rows} != {folded}")

    # -- The world outside

    def effect(self, run: RunId, call: int, body: bytes, *, idempotent: bool) -> None:
        """A tool did what it does: of a tool that may not be repeated never twice, whichever run of a line asks."""
        key = idempotency_key(run, call, body)
        self.books.effects[run, call] += 1
        self.books.by_key[key] += 1
        self._approved(run, call)
        require(idempotent or self.books.by_key[key] == 1, f"call {call} of {run} took effect twice ({key})")

    def _approved(self, run: RunId, call: int) -> None:
        bodies = [entry.body for entry in self._decoded[run]]
        gated = any(
            isinstance(body, e.ScheduleToolCall) and body.call == call and body.policy.approval is not None
            for body in bodies
        )
        decided = [
            body.decision for body in bodies if isinstance(body, e.ApprovalDecided) and body.call == call
        ]
        require(
            not gated or decided == ["approved"], f"call {call} of {run} took effect, its approval: {decided}"
        )

    # -- The end

    def nobody_waits(self) -> None:
        """In peace, though every hint was lost: events are delivered, calls made, ends of children told, and those
        of stopped calls cancelled.
        """
        now = self._journals.time
        waiting = dict.fromkeys(self._in_the_air(), CALL_MS) | dict.fromkeys(self._waiting(), SOON_MS)
        self._waits = {what: self._waits.get(what, now) for what in waiting}
        late = [what for what, since in self._waits.items() if now - since > waiting[what]]
        require(not late, f"nobody sees to it: {late[:3]}")

    def _in_the_air(self) -> Iterator[str]:
        """Calls that a dispatcher has claimed: their server answers, or they are given back."""
        for (_, name), run in self._journals.runs.items():
            for row in run.calls_pending():
                if row.route is Route.DISPATCHER and row.lease_until is not None:
                    yield f"call {row.n} of {name} was claimed in attempt {row.attempt} and comes to nothing"

    def _waiting(self) -> Iterator[str]:
        """What somebody should be about to do."""
        now = self._journals.time
        runs = self._journals.runs
        for (namespace, name), run in runs.items():
            ready = run.status is RunStatus.ACTIVE and run.delivered < run.last_event
            settling = (
                run.cancelling and run.calls_pending()
            )  # after a limit nothing is delivered, calls are awaited
            if ready and not settling and (PendingKind.START, 0) not in run.pending:
                yield f"event {run.delivered + 1} of {name} is not delivered"
            for row in run.pending.values():
                if row.due is not None and row.due <= now:
                    yield f"{row.kind.name.lower()} {row.n} of {name} is due"
                if row.lease_until is not None and row.lease_until <= now:
                    yield f"the lease of call {row.n} of {name} is over, attempt {row.attempt}"
            for row in run.calls_pending():
                child = runs.get((namespace, RunId(row.claim_id or "")))
                if child is not None and child.ended_at is not None:
                    yield f"call {row.n} of {name} is not told of the end of its child"
                elif child is not None and row.stopping and not child.cancelling:
                    yield f"call {row.n} of {name} is stopped, its child goes on"
                elif run.cancelling and run.owner is not None and _goes_on(row):
                    yield f"call {row.n} of {name} is not told to stop"
                elif row.stopping and row.claim_id in self.dispatchers:
                    yield f"call {row.n} of {name} was told to stop and goes on"
                elif row.offered and row.route is Route.DISPATCHER and not row.stopping:
                    yield f"call {row.n} of {name} is not made in attempt {row.attempt}"

    def all_ended(self) -> None:
        """What must hold of each run by itself, and between runs."""
        runs = {run: found for (_, run), found in self._journals.runs.items()}
        for run in runs.values():
            self.check(run)
        for name, run in runs.items():
            entries = self._decoded[name]
            check_end(run, entries, self.books)
            check_children(run, entries, runs, self._decoded.__getitem__, self.books)
            parent = run.start.parent or {}
            if parent.get("kind") == "fork":
                check_fork(run, entries, self._decoded[RunId(str(parent["run"]))], self.books)
            self._count_pairs(entries)

    def _count_pairs(self, entries: Sequence[Entry]) -> None:
        state = RunState()
        for entry in delivery_order(entries):
            self.pairs[_named(state), TYPE_NAMES[TYPE_OF[type(entry.body)]]] += 1
            apply(state, entry)


def _goes_on(row: MemoryRow) -> bool:
    """Begun before the clean-up, or not yet withdrawn, and not told to stop."""
    return not row.stopping and row.why is not DueWhy.CLEANUP


def _named(state: RunState) -> str:
    """As in the table of `tests/sandbox/journal/test_state.py`."""
    if state.started is None:
        return "new"
    if state.end is not None:
        return "ended"
    return (
        "active" if state.cancelling is None else "aborting" if state.cancelling == "limit" else "cancelling"
    )
