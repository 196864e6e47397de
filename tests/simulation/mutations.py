"""Known bugs, put into the engine on purpose: the simulation must find each of them within a few seeds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from sandbox.activation import live_run
from sandbox.activation.inbox import Inbox
from sandbox.journal import decide
from sandbox.journal.decide import Append
from sandbox.journal.errors import Unavailable
from sandbox.store import memory
from sandbox.store.interface import CommandAppend, EventAppend, Guard
from sandbox.store.memory import MemoryStore
from sandbox.store.memory_runs import MemoryRun
from sandbox.worker.ownership import Ownership
from sandbox.worker.warm_runs import WarmRuns
from tests.simulation.script import Script

Mutation = Callable[[], Any]
MUTATIONS: dict[str, Mutation] = {}


def mutation(make: Mutation) -> Mutation:
    MUTATIONS[make.__name__] = make
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

    return _both(
        patch.object(decide, "decide_settle", taken), patch.object(MemoryStore, "_settle", unguarded)
    )


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

    return _both(
        patch.object(MemoryStore, "heartbeat", heartbeat),
        patch.object(decide, "decide_commands", _whoever_owns_it),
    )


def _whoever_owns_it(run: Any, *, owned: bool, before: int, recorded: int) -> Any:
    del owned
    return Append() if run.status == "active" and before == recorded else decide.Refusal("not_owner")


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
def _both(*patches: Any) -> Iterator[None]:
    with patches[0], patches[1]:
        yield
