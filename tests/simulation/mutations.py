"""Known bugs, put into the engine on purpose: the simulation must find each of them within a few seeds."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from app.dispatcher import children
from app.dispatcher import loop as dispatcher_loop
from app.dispatcher.children import ChildEnds
from sandbox.activation import forking, live_run
from sandbox.activation.inbox import Inbox
from sandbox.journal import decide
from sandbox.journal.decide import Append
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import Unavailable
from sandbox.journal.fork import Fate, Matching
from sandbox.journal.ids import RunId
from sandbox.store import memory, memory_quarantine
from sandbox.store.interface import CommandAppend, EventAppend, EventOutcome, EventVerdict, Guard
from sandbox.store.memory import MemoryStore
from sandbox.store.memory_runs import MemoryRun
from sandbox.worker.ownership import Ownership
from sandbox.worker.warm_runs import WarmRuns
from tests.simulation.script import Script

Mutation = Callable[[], Any]
MUTATIONS: list[Mutation] = []


def mutation(make: Mutation) -> Mutation:
    MUTATIONS.append(make)
    return make


@mutation
def an_outcome_is_taken_though_the_call_has_one() -> Any:
    def taken(_run: Any, *, pending: bool) -> Append:
        del pending
        return Append()

    settle = MemoryStore._settle

    def unguarded(self: MemoryStore, run: MemoryRun, event: EventAppend, decision: Append) -> None:
        if event.guard in {Guard.CALL, Guard.TIMER} and (event.guard.value, event.n) not in run.pending:
            return
        settle(self, run, event, decision)

    return _all(patch.object(decide, "decide_settle", taken), patch.object(MemoryStore, "_settle", unguarded))


@mutation
def a_former_owner_may_append() -> Any:
    return patch.object(decide, "decide_commands", lambda *_args, **_facts: Append())


@mutation
def the_attempt_is_not_looked_at() -> Any:
    real = memory._decide_event
    return patch.object(memory, "_decide_event", lambda run, event: real(run, replace(event, attempt=None)))


@mutation
def what_may_not_be_repeated_is_offered_again() -> Any:
    real = MemoryStore.expire_leases

    async def expire(self: MemoryStore, limit: int) -> Any:
        for run in self.journals.runs.values():
            run.pending.update({k: replace(row, idempotent=True) for k, row in run.pending.items()})
        return await real(self, limit)

    return patch.object(MemoryStore, "expire_leases", expire)


@mutation
def a_signal_is_taken_twice() -> Any:
    return patch.object(decide, "decide_signal", lambda *_args, **_facts: Append())


@mutation
def timers_fire_early() -> Any:
    real = MemoryStore.read_due

    async def hasty(self: MemoryStore, limit: int) -> Any:
        now = self.journals.time
        self.journals.advance(50)
        try:
            return await real(self, limit)
        finally:
            self.journals.time = now

    return patch.object(MemoryStore, "read_due", hasty)


@mutation
def a_gap_in_the_journal_is_skipped() -> Any:
    def take(self: Inbox, limit: int) -> list[Any]:
        found = [self._events.pop(seq) for seq in sorted(self._events)[:limit]]
        if found:
            self.position = found[-1].seq + 1  # type: ignore[assignment]
        while self._skip_own():
            continue
        return found

    return patch.object(Inbox, "take", take)


@mutation
def an_unknown_commit_is_tried_again_blindly() -> Any:
    real = live_run.LiveRun._append

    async def again(self: Any, emissions: Any, *, ended: bool) -> Any:
        try:
            return await real(self, emissions, ended=ended)
        except Unavailable:
            self.commands = self._store.real.journals.runs[self.namespace, self.run].commands
            return await real(self, emissions, ended=ended)

    return patch.object(live_run.LiveRun, "_append", again)


@mutation
def a_lost_claim_is_never_given_back() -> Any:
    real = WarmRuns.look_again

    def look(self: WarmRuns, runs: Any) -> list[Any]:
        real(self, runs)
        return []

    return patch.object(WarmRuns, "look_again", look)


@mutation
def lost_hints_are_never_looked_for() -> Any:
    async def look(_self: Ownership) -> None:
        """Somebody will surely tell."""

    return patch.object(Ownership, "_look_for_lost_hints", look)


@mutation
def a_released_run_is_not_ready() -> Any:
    real = MemoryStore.release_runs

    async def release(self: MemoryStore, worker: Any, runs: Any) -> int:
        waiting = await real(self, worker, [])
        for key in runs:
            if self.journals.runs[key].owner == worker:
                self.journals.runs[key].last_event = self.journals.runs[key].delivered
        await real(self, worker, runs)
        return waiting

    return patch.object(MemoryStore, "release_runs", release)


@mutation
def a_cancelled_call_is_withdrawn_though_it_has_begun() -> Any:
    async def unbegun(
        self: MemoryStore, namespace: Any, run: Any, *, below: int | None, deferred: bool
    ) -> Any:
        del deferred
        rows = self.journals.runs[namespace, run].calls_pending()
        return [(row.n, row.attempt) for row in rows if below is None or row.n < below]

    return patch.object(MemoryStore, "unbegun_calls", unbegun)


@mutation
def satisfied_waits_are_not_reported() -> Any:
    real = MemoryStore.append_commands

    async def append(self: MemoryStore, request: CommandAppend) -> Any:
        return await real(self, replace(request, waits_done=()))

    return patch.object(MemoryStore, "append_commands", append)


@mutation
def a_superseded_worker_goes_on() -> Any:
    async def heartbeat(_self: MemoryStore) -> bool:
        return True

    return _all(
        patch.object(MemoryStore, "heartbeat", heartbeat),
        patch.object(decide, "decide_commands", _whoever_owns_it),
    )


def _whoever_owns_it(run: Any, *, owned: bool, before: int, recorded: int) -> Any:
    del owned
    return Append() if run.status == "active" and before == recorded else decide.Refusal("not_owner")


# -- Forks


@mutation
def a_fork_makes_its_parents_calls_again() -> Any:
    return patch.object(Matching, "_fate", lambda _self, _call: Fate.ANEW)


@mutation
def a_fork_stops_matching_at_the_first_outcome() -> Any:
    real = Matching.next

    def once(self: Matching) -> Any:
        found = real(self)
        self.over = self.over or found is None or found.type is EntryType.TOOL_CALL_COMPLETED
        return found

    return patch.object(Matching, "next", once)


@mutation
def the_other_calls_of_a_changed_event_are_made_anew() -> Any:
    real = Matching._differ

    def differ(self: Matching, *made: Any) -> None:
        real(self, *made)
        self._unused.clear()

    return patch.object(Matching, "_differ", differ)


@mutation
def what_comes_while_a_fork_is_made_is_forgotten() -> Any:
    return patch.object(memory, "hold", lambda _run, _event: EventVerdict(EventOutcome.APPENDED))


@mutation
def a_fork_is_begun_again_after_a_crash() -> Any:
    real = forking._append

    async def anew(facts: Any, prefix: Any, first: Any, store: Any, owner_epoch: int) -> Any:
        recorded = prefix.entries[: first - 1]
        return await real(
            facts, replace(prefix, entries=[*recorded, *prefix.entries]), first, store, owner_epoch
        )

    return patch.object(forking, "_append", anew)


@mutation
def a_fork_gives_up_the_key_of_a_lost_call() -> Any:
    return patch.object(Matching, "_key", lambda _self, _step, _fate: None)


@mutation
def a_fork_takes_an_outcome_of_another_call() -> Any:
    real = Matching._deliver

    def deliver(self: Matching, entry: Any) -> Any:
        if entry.type is EntryType.TOOL_CALL_COMPLETED and len(self._calls) > 1:
            first, second = list(self._calls)[:2]
            self._calls[first], self._calls[second] = self._calls[second], self._calls[first]
        return real(self, entry)

    return patch.object(Matching, "_deliver", deliver)


@mutation
def an_abandoned_fork_stays_where_it_is() -> Any:
    def leave(run: MemoryRun, _now: Any) -> list[Any]:
        del run
        return []

    return patch.object(memory_quarantine, "leave_fork", leave)


# -- Child runs


@mutation
def a_call_is_not_held_by_its_child_and_starts_another() -> Any:
    count = [0]
    real = MemoryStore.start_child

    def another(_run: Any, _call: int, _since: Any) -> RunId:
        count[0] += 1
        return RunId(f"child{count[0]}")

    async def start(self: MemoryStore, *args: Any, awaited: bool) -> Any:
        del awaited
        return await real(self, *args, awaited=False)

    async def none_known(_self: MemoryStore, _call: Any) -> None:
        """Whether there is one is not looked at."""

    return _all(
        patch.object(children, "child_id", another),
        patch.object(MemoryStore, "started_child", none_known),
        patch.object(MemoryStore, "start_child", start),
    )


@mutation
def the_dispatcher_looks_only_when_it_is_told() -> Any:
    return patch.object(dispatcher_loop, "POLL_MAX_S", 1e9)


@mutation
def the_news_of_a_child_is_forgotten_before_it_is_told() -> Any:
    real = MemoryStore.read_child_news

    async def read(self: MemoryStore, limit: int) -> Any:
        news = await real(self, limit)
        await self.forget_child_news(news)
        return news

    return patch.object(MemoryStore, "read_child_news", read)


@mutation
def children_outlive_the_runs_that_awaited_them() -> Any:
    async def cancel(_self: ChildEnds, _namespace: Any, _parent: Any, _child: Any) -> None:
        """Let it go on."""

    return patch.object(ChildEnds, "_cancel", cancel)


@mutation
def a_call_gets_the_end_of_another_child() -> Any:
    real = MemoryStore.calls_held_by

    async def held(self: MemoryStore, namespace: Any, child: Any) -> Any:
        found = [row.claim_id for _, row in self._held() if row.claim_id != child]
        return await real(self, namespace, found[0] if found else child)

    return patch.object(MemoryStore, "calls_held_by", held)


# -- The simulation's own part


@mutation
def the_script_draws_chance_of_its_own() -> Any:
    real = Script.deliver
    count = [0]

    def deliver(self: Script, event: dict[str, Any]) -> None:
        count[0] += 1
        if count[0] % 7 == 0:
            self.random.random()
        real(self, event)

    return patch.object(Script, "deliver", deliver)


@contextmanager
def _all(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield
