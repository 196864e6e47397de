"""Known bugs of what stands around the runs: the scheduler, dispatchers, operators, deadlines, forks and children."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from app.dispatcher.calls import CallMaker
from app.dispatcher.loop import Dispatcher
from app.scheduler import loop as scheduler_loop
from sandbox.activation import forking, live_run
from sandbox.journal import decide
from sandbox.journal.decide import Append
from sandbox.journal.fork import Fate, Matching
from sandbox.journal.ids import TimeMs
from sandbox.store import memory, memory_forks
from sandbox.store.interface import DueRow, DueWhy, PendingKind, RunStatus
from sandbox.store.memory import MemoryStore
from sandbox.store.memory_runs import MemoryRow, MemoryRun
from tests.simulation.mutations import Mutation

HOUR_MS = 3_600_000
MUTATIONS: list[Mutation] = []


def mutation(make: Mutation) -> Mutation:
    MUTATIONS.append(make)
    return make


# -- The scheduler


def _overlooked(wanted: Callable[[DueRow], bool]) -> Any:
    real = MemoryStore.read_due

    async def read(self: MemoryStore, limit: int) -> list[DueRow]:
        return [row for row in await real(self, limit) if wanted(row)]

    return patch.object(MemoryStore, "read_due", read)


@mutation
def deadlines_are_never_seen_to() -> Any:
    return _overlooked(lambda row: row.kind is not PendingKind.DEADLINE)


@mutation
def approvals_never_expire() -> Any:
    return _overlooked(lambda row: row.why is not DueWhy.APPROVAL)


@mutation
def calls_never_time_out() -> Any:
    return _overlooked(lambda row: row.why is not DueWhy.TIMEOUT)


@mutation
def timers_fire_in_another_order() -> Any:
    real = scheduler_loop._append_in_order
    return patch.object(
        scheduler_loop, "_append_in_order", lambda store, events: real(store, list(events)[::-1])
    )


@mutation
def leases_never_end() -> Any:
    async def expire(_self: MemoryStore, _limit: int) -> list[DueRow]:
        return []

    return patch.object(MemoryStore, "expire_leases", expire)


@mutation
def a_run_begins_before_its_start() -> Any:
    def ready(self: MemoryRun) -> bool:
        return self.status is RunStatus.ACTIVE and self.owner is None and self.last_event > self.delivered

    return patch.object(MemoryRun, "ready", property(ready))


@mutation
def a_run_that_is_to_start_later_never_does() -> Any:
    async def begin(_self: MemoryStore, _runs: Any) -> int:
        return 0

    return patch.object(MemoryStore, "begin_runs", begin)


@mutation
def time_goes_back() -> Any:
    return patch.object(decide, "event_time", lambda _last, now, not_before: max(now - 400, not_before))


# -- Workers


@mutation
def the_runs_of_dead_workers_stay_theirs() -> Any:
    async def reap(_self: MemoryStore) -> int:
        return 0

    return patch.object(MemoryStore, "reap_workers", reap)


@mutation
def nothing_is_reported_of_activations_without_commands() -> Any:
    async def report(_self: live_run.LiveRun) -> None:
        """It was nothing."""

    return patch.object(live_run.LiveRun, "report", report)


@mutation
def what_is_too_big_for_an_entry_is_not_stored() -> Any:
    async def store(*_what: Any) -> None:
        """The entry has its digest."""

    return patch.object(live_run, "store_big_values", store)


@mutation
def calls_are_not_told_to_stop() -> Any:
    async def stop(*_args: Any, **_options: Any) -> None:
        """They will end some day."""

    return patch.object(MemoryStore, "stop_calls", stop)


@mutation
def calls_that_have_not_begun_are_not_withdrawn() -> Any:
    async def none(*_args: Any, **_options: Any) -> list[tuple[int, int]]:
        return []

    return patch.object(MemoryStore, "unbegun_calls", none)


# -- Operators and people


@mutation
def a_released_run_has_no_deadline() -> Any:
    real = MemoryStore.release_quarantined

    async def release(self: MemoryStore, namespace: Any, run: Any) -> bool:
        released = await real(self, namespace, run)
        self.journals.runs[namespace, run].pending.pop((PendingKind.DEADLINE, 0), None)
        return released

    return patch.object(MemoryStore, "release_quarantined", release)


@mutation
def a_call_is_offered_before_it_is_approved() -> Any:
    def offered(self: MemoryRow) -> bool:
        return self.kind is PendingKind.CALL and self.claim_id is None and not (self.deferred or self.held)

    return patch.object(MemoryRow, "offered", property(offered))


@mutation
def an_approval_is_decided_twice() -> Any:
    def decided(_run: Any, *, waiting: bool, approved: bool) -> Append:
        del waiting
        return Append(delivered=not approved)

    return patch.object(decide, "decide_approval", decided)


# -- Dispatchers


@mutation
def a_claim_of_calls_whose_answer_was_lost_is_kept() -> Any:
    async def release(*_args: Any) -> None:
        """Somebody will surely send them."""

    return patch.object(MemoryStore, "release_calls", release)


@mutation
def a_call_that_is_told_to_stop_goes_on() -> Any:
    async def stop(_self: Dispatcher) -> None:
        """It is under way."""

    return patch.object(Dispatcher, "_stop_calls", stop)


@mutation
def whatever_failed_is_made_again() -> Any:
    async def again(self: CallMaker, flight: Any, claim_id: str, _failure: Any) -> bool:
        done: bool = await self._store.retry_call(claim_id, flight.call, 0)
        return done

    return patch.object(CallMaker, "_again", again)


@mutation
def children_are_not_told_to_stop() -> Any:
    async def none(_self: MemoryStore, _limit: int) -> list[Any]:
        return []

    return patch.object(MemoryStore, "children_to_stop", none)


@mutation
def a_child_may_outlast_its_parents_deadline() -> Any:
    real = MemoryStore.call_place

    async def place(self: MemoryStore, call: Any, claim_id: str) -> Any:
        found = await real(self, call, claim_id)
        return found and replace(found, deadline=TimeMs(found.deadline + HOUR_MS))

    return patch.object(MemoryStore, "call_place", place)


@mutation
def a_child_that_nobody_waits_for_any_more_goes_on() -> Any:
    return patch.object(memory, "give_up_child", lambda *_call: None)


# -- Forks


@mutation
def a_fork_reuses_calls_that_never_began() -> Any:
    real = Matching._fate

    def fate(self: Matching, call: int) -> Fate:
        return Fate.REUSED if call in self._outcomes else real(self, call)

    return patch.object(Matching, "_fate", fate)


@mutation
def a_fork_goes_beyond_the_place_that_was_asked_for() -> Any:
    real = Matching.__init__

    def init(self: Matching, run: Any, parent: Any, _at: Any = None) -> None:
        real(self, run, parent, None)

    return patch.object(Matching, "__init__", init)


@mutation
def chunks_of_a_fork_cut_activations_apart() -> Any:
    return patch.object(forking, "_chunk", lambda entries: iter(entries[: forking.CHUNK_ENTRIES]))


@mutation
def the_timers_of_a_fork_are_forgotten() -> Any:
    real = memory_forks._finish

    def finish(run: MemoryRun, done: Any, now: Any) -> None:
        kept = [made for made in done.pending if made.kind is not PendingKind.TIMER]
        real(run, replace(done, pending=kept), now)

    return patch.object(memory_forks, "_finish", finish)
