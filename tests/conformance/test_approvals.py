"""What every store does with gated calls: offered after a yes, completed with a no, decided once."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from sandbox.journal import entries as e
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import RunId
from sandbox.store.interface import (
    DueWhy,
    EventOutcome,
    PendingKind,
    PendingRow,
    Route,
    RunStatus,
    TaskFilter,
)
from sandbox.store.memory import decoded
from tests.fixtures.entries import call, failure, result, signal
from tests.fixtures.stores import ORGANIZATION, Bench, Owned, complete, draft

ANN = e.Actor("member", "ann")
YES = e.ApprovalDecided(1, "approved", "ann", ANN)
NO = e.ApprovalDecided(1, "denied", "ann", ANN, "too much")
LATE = e.ApprovalDecided(1, "expired", None, None)


async def gated(bench: Bench, **effects: Any) -> Owned:
    """A run whose first call, of `pay`, waits for an approval."""
    owned = await bench.own()
    time = (await bench.record(owned.claimed.run)).started_at
    body = call(1, "pay", approval=True)
    assert (await owned.append(draft(body, 0, time, gated=True, **effects), toolset="support")).appended
    return owned


async def claimed(bench: Bench) -> list[str]:
    tasks = await bench.edge.claim_tasks(TaskFilter(ORGANIZATION, bench.namespace), str(uuid4()), 10, 30_000)
    return [task.tool for task in tasks]


async def row_of(bench: Bench, run: RunId) -> PendingRow:
    return (await bench.record(run)).pending[0]


async def test_an_approved_call_is_offered_and_only_then(bench: Bench) -> None:
    owned = await gated(bench, expires_ms=1_000)
    run = owned.claimed.run
    assert await claimed(bench) == []
    verdict = await bench.decide(run, YES)
    assert (verdict.outcome, verdict.seq, verdict.owner) == (EventOutcome.APPENDED, 2, owned.store.worker)
    row = await row_of(bench, run)
    assert (row.gated, row.due, row.attempt) == (False, None, 0)
    record = await bench.record(run)
    assert (record.next_seq, record.last_event) == (3, 0), "a decision is not delivered"
    assert await claimed(bench) == ["pay"]
    await bench.advance(2_000)
    assert await bench.edge.read_due(10) == [], "an approval that was given does not expire"
    assert (await bench.event(run, result(1))).outcome is EventOutcome.APPENDED
    assert not (await bench.state(run)).calls


@pytest.mark.parametrize("decided", [NO, LATE], ids=["denied", "expired"])
async def test_a_refusal_completes_the_call_in_the_same_append(bench: Bench, decided: Any) -> None:
    owned = await gated(bench, expires_ms=1_000)
    run = owned.claimed.run
    await owned.store.release_runs(owned.store.worker, [(bench.namespace, run)])
    await bench.advance(1_000)
    verdict = await bench.decide(run, decided)
    assert (verdict.outcome, verdict.seq, verdict.owner) == (EventOutcome.APPENDED, 2, None)
    _, _, said, completed = map(decoded, await bench.entries(run))
    assert (said.body, said.time) == (decided, completed.time)
    assert isinstance(completed.body, e.ToolCallCompleted)
    assert completed.body.error is not None
    assert (completed.body.error.name, completed.body.attempts) == ("ApprovalDeniedError", 0)
    record = await bench.record(run)
    assert (record.pending, record.next_seq, record.last_event) == ((), 4, 3)
    again = await bench.own(run)
    assert again.claimed.next_seq == 4, "the run is ready: its script is told"


async def test_of_two_deciders_one_wins(bench: Bench) -> None:
    run = (await gated(bench)).claimed.run
    said = [YES, NO] * 5
    verdicts = await asyncio.gather(*(bench.decide(run, decided) for decided in said))
    outcomes = [verdict.outcome for verdict in verdicts]
    assert sorted(outcomes) == [EventOutcome.APPENDED] + [EventOutcome.NOT_PENDING] * 9
    entries = await bench.entries(run)
    winner = said[outcomes.index(EventOutcome.APPENDED)]
    assert [entry.type for entry in entries].count(EntryType.APPROVAL_DECIDED) == 1
    assert decoded(entries[2]).body == winner
    assert len(entries) == (3 if winner is YES else 4)


async def test_what_waits_for_no_approval_is_not_decided(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time))
    assert (await bench.decide(run, YES)).outcome is EventOutcome.NOT_PENDING
    assert (await bench.decide(run, replace(NO, call=2))).outcome is EventOutcome.NOT_PENDING
    assert (await bench.decide(RunId(str(uuid4())), YES)).outcome is EventOutcome.UNKNOWN
    other = await bench.new_namespace()
    assert (await bench.decide(run, YES, namespace=other)).outcome is EventOutcome.UNKNOWN
    assert len(await bench.entries(run)) == 2


async def test_an_approval_is_due_when_it_expires_and_not_before(bench: Bench) -> None:
    owned = await gated(bench, expires_ms=1_000)
    run = owned.claimed.run
    assert await bench.edge.read_due(10) == []
    assert (await bench.decide(run, LATE)).outcome is EventOutcome.NOT_PENDING, "it has time left"
    await bench.advance(1_000)
    (due,) = await bench.edge.read_due(10)
    assert (due.run, due.kind, due.n, due.why, due.name) == (run, PendingKind.CALL, 1, DueWhy.APPROVAL, "pay")
    assert (await bench.decide(run, LATE)).outcome is EventOutcome.APPENDED
    assert await bench.edge.read_due(10) == []
    without = await gated(bench)
    await bench.advance(10_000)
    assert (await row_of(bench, without.claimed.run)).due is None
    assert (await bench.decide(without.claimed.run, LATE)).outcome is EventOutcome.NOT_PENDING


async def test_a_run_that_is_cancelled_approves_nothing_more(bench: Bench) -> None:
    owned = await gated(bench)
    run = owned.claimed.run
    await bench.event(run, e.CancelRequested("user"))
    assert (await bench.decide(run, YES)).outcome is EventOutcome.NOT_PENDING
    assert (await row_of(bench, run)).gated
    assert (await bench.decide(run, NO)).outcome is EventOutcome.APPENDED
    assert not (await bench.state(run)).calls


async def test_an_ended_run_decides_nothing(bench: Bench) -> None:
    owned = await gated(bench)
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await bench.event(run, failure(1, attempts=0))
    await owned.append(draft(complete(), 0, time), delivered=2)
    assert (await bench.record(run)).status is RunStatus.COMPLETED
    for decided in (YES, NO, LATE):
        assert (await bench.decide(run, decided)).outcome is EventOutcome.ENDED


async def test_a_quarantined_run_keeps_decisions_for_later(bench: Bench) -> None:
    owned = await gated(bench)
    run = owned.claimed.run
    await owned.store.quarantine(bench.namespace, run, {"code": "drill"})
    assert (await bench.decide(run, NO)).outcome is EventOutcome.APPENDED
    record = await bench.record(run)
    assert (record.status, record.next_seq) == (RunStatus.QUARANTINED, 4)


async def test_a_call_that_the_script_aborts_waits_no_more(bench: Bench) -> None:
    owned = await gated(bench)
    run = owned.claimed.run
    await bench.event(run, signal("go"))
    time = (await bench.entries(run))[2].time
    await owned.append(draft(e.ToolCallCancelled(1), 2, time), delivered=2)
    assert (await bench.record(run)).pending == ()
    assert (await bench.decide(run, YES)).outcome is EventOutcome.NOT_PENDING


async def test_calls_of_the_dispatcher_wait_likewise(bench: Bench) -> None:
    owned = await gated(bench, route=Route.DISPATCHER)
    run = owned.claimed.run

    async def dispatched() -> list[str]:
        found = await bench.edge.claim_calls(str(uuid4()), 10, lease_ms=30_000, server_max=10, free={})
        return [taken.tool for taken in found]

    assert await dispatched() == []
    assert (await bench.decide(run, YES)).outcome is EventOutcome.APPENDED
    assert await dispatched() == ["pay"]
