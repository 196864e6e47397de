"""What every store does when operators quarantine, release and abandon runs: one suite over both stores."""

from dataclasses import replace

from app.scheduler.loop import fire_due
from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import decode_body
from sandbox.journal.ids import Epoch, RunId, Seq
from sandbox.journal.state import fold
from sandbox.store.interface import EventOutcome, Guard, RunStatus, TaskFilter
from sandbox.store.memory import MemoryStore, decoded
from sandbox.store.postgres.tasks import key_of
from tests.conformance.test_forks import append as append_chunk
from tests.conformance.test_forks import entry as fork_entry
from tests.conformance.test_forks import start as start_fork
from tests.fixtures.entries import call, signal
from tests.fixtures.stores import ORGANIZATION, TTL_MS, Bench, draft

TTL = e.CancelRequested("ttl")


async def operate(bench: Bench, verb: str, run: RunId) -> bool:
    """quarantine, release or abandon, as the service does beside its audit."""
    if isinstance(bench.edge, MemoryStore):
        store = bench.edge
        if verb == "quarantine":
            return await store.quarantine_by_operator(bench.namespace, run, {})
        act = store.release_quarantined if verb == "release" else store.abandon_quarantined
        return await act(bench.namespace, run)
    assert bench.admin is not None
    if verb == "quarantine":
        sql = "select quarantine_by_operator($1, $2, ''::bytea) is not null"
    else:
        sql = f"select {verb}_quarantined($1, $2)"
    return bool(await bench.admin.fetchval(sql, bench.namespace, run))


async def outcomes(bench: Bench, run: RunId) -> dict[int, tuple[str, int]]:
    bodies = [decode_body(entry.type, entry.body)[0] for entry in await bench.entries(run)]
    return {
        body.call: (body.error.name if body.error else "", body.attempts)
        for body in bodies
        if isinstance(body, e.ToolCallCompleted)
    }


async def test_only_what_is_active_is_quarantined_and_only_what_is_quarantined_released(bench: Bench) -> None:
    owned = await bench.own()
    run = owned.claimed.run
    assert not await operate(bench, "release", run)
    assert not await operate(bench, "abandon", run)
    assert await operate(bench, "quarantine", run)
    assert not await operate(bench, "quarantine", run)
    assert (await bench.record(run)).status is RunStatus.QUARANTINED
    assert await operate(bench, "release", run)
    assert not await operate(bench, "release", run)
    (claimed,) = await owned.store.claim_runs(owned.store.worker, [Epoch(1)], 10)
    assert claimed.owner_epoch == owned.claimed.owner_epoch + 1, "its former owner may not go on"


async def test_the_deadline_waits_and_counts_again(bench: Bench) -> None:
    run = await bench.start()
    await operate(bench, "quarantine", run)
    await bench.advance(TTL_MS + 1)
    await fire_due(bench.edge)  # type: ignore[arg-type]  # both stores answer what the scheduler asks
    assert (await bench.event(run, TTL, guard=Guard.DEADLINE)).outcome is EventOutcome.NOT_PENDING
    assert len(await bench.entries(run)) == 1
    await operate(bench, "release", run)
    await fire_due(bench.edge)  # type: ignore[arg-type]
    assert [entry.type.name for entry in await bench.entries(run)] == ["RUN_STARTED", "CANCEL_REQUESTED"]


async def test_an_abandoned_run_ends_when_its_calls_are_settled(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(*(draft(call(number), 0, time) for number in (1, 2, 3)))
    begun, deferred = await owned.store.claim_tasks(
        TaskFilter(ORGANIZATION), "00000000-0000-7000-8000-000000000001", 2, 30_000
    )
    assert await owned.store.defer_tasks([key_of(deferred)], [None]) == [True]
    await operate(bench, "quarantine", run)
    assert await operate(bench, "abandon", run)
    assert not await operate(bench, "release", run)
    await fire_due(bench.edge)  # type: ignore[arg-type]
    assert await outcomes(bench, run) == {deferred.call: ("CancelledError", 1), 3: ("CancelledError", 0)}
    assert (await bench.event(run, signal("late"))).outcome is EventOutcome.APPENDED
    ((until, stop),) = await owned.store.heartbeat_tasks([key_of(begun)], 60_000)
    assert (until is not None, stop) == (True, True)
    await bench.advance(30_001)
    await fire_due(bench.edge)  # type: ignore[arg-type]
    await bench.advance(1_000)
    await fire_due(bench.edge)  # type: ignore[arg-type]
    assert (await outcomes(bench, run))[begun.call] == ("OutcomeUnknownError", 1)
    record = await bench.record(run)
    assert (record.status, record.pending_count) == (RunStatus.ABORTED, 0)
    assert (await bench.state(run)).status == "aborted"


async def test_a_fork_that_is_given_up_before_it_is_made_ends(bench: Bench) -> None:
    run, time = await start_fork(bench)
    owned = await bench.own(run)
    known = signal("go", 1, "s1")
    recorded = [
        fork_entry(call(1), time, 0),
        fork_entry(call(2), time, 0),
        fork_entry(replace(known, reused=Seq(4)), time + 5, signal_id="s1"),
        fork_entry(e.ToolCallCompleted(1, value_of(1), None, 1, None, Seq(5)), time + 10),
        fork_entry(call(3), time + 10, 4),
    ]
    assert await append_chunk(owned, 1, recorded)
    for held, guard in ((known, Guard.SIGNAL), (signal("go", 2, "s2"), Guard.SIGNAL), (TTL, Guard.CANCEL)):
        ident = held.id if isinstance(held, e.SignalReceived) else None
        assert (await bench.event(run, held, guard=guard, signal_id=ident)).outcome is EventOutcome.APPENDED
    assert await operate(bench, "quarantine", run)
    assert (await bench.event(run, TTL, guard=Guard.DEADLINE)).outcome is EventOutcome.NOT_PENDING
    assert await operate(bench, "abandon", run)
    assert not await append_chunk(owned, 6, [fork_entry(e.Log("info", []), time + 10, 4)])
    for _ in range(2):
        await fire_due(bench.edge)  # type: ignore[arg-type]
        await bench.advance(1_000)
    record = await bench.record(run)
    assert (record.status, record.pending, record.calls, record.delivered) == (RunStatus.ABORTED, (), 3, 4)
    bodies = [decoded(entry).body for entry in await bench.entries(run)]
    assert fold(map(decoded, await bench.entries(run))).status == "aborted"
    assert [body.id for body in bodies if isinstance(body, e.SignalReceived)] == ["s1", "s2"]
    assert (await outcomes(bench, run))[3] == ("CancelledError", 0)
    assert await bench.edge.read_due(10) == []


async def test_a_former_claim_of_the_same_worker_quarantines_nothing(bench: Bench) -> None:
    owned = await bench.own()
    run, former = owned.claimed.run, owned.claimed.owner_epoch
    await operate(bench, "quarantine", run)
    await operate(bench, "release", run)
    (again,) = await owned.store.claim_runs(owned.store.worker, [Epoch(1)], 10)
    await owned.store.quarantine(bench.namespace, run, {"code": "divergence"}, former)
    assert (await bench.record(run)).status is RunStatus.ACTIVE
    await owned.store.quarantine(bench.namespace, run, {"code": "divergence"}, again.owner_epoch)
    assert (await bench.record(run)).status is RunStatus.QUARANTINED
