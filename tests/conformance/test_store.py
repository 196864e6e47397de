"""What every store does with starts, commands and what is pending: one suite over both stores."""

import asyncio
from dataclasses import replace
from uuid import uuid4

from app.scheduler.due import due_event, lost_lease_event
from sandbox.journal import entries as e
from sandbox.journal.ids import Epoch, RunId, TimeMs
from sandbox.store.interface import (
    LEASE_MS,
    CommandVerdict,
    EventOutcome,
    PendingKind,
    RunStatus,
    StartOutcome,
    TaskFilter,
)
from tests.fixtures.entries import call, failure, result, signal, timer
from tests.fixtures.stores import ORGANIZATION, TTL_MS, Bench, draft, log, nobody, withdrawn


def refused(verdict: CommandVerdict) -> bool:
    return not verdict.appended


# -- Starts


async def test_a_start_records_the_first_entry_and_makes_the_run_ready(bench: Bench) -> None:
    request = await bench.request(labels={"a": "1"}, workflow="w")
    verdict = await bench.edge.start_run(request)
    assert (verdict.outcome, verdict.run) == (StartOutcome.STARTED, request.run)
    (entry,) = await bench.entries(request.run)
    assert (entry.seq, entry.type, entry.time, entry.cause) == (
        0,
        e.EntryType.RUN_STARTED,
        request.time,
        None,
    )
    assert entry.body == request.body
    record = await bench.record(request.run)
    assert (record.status, record.cancelling, record.next_seq, record.delivered) == (
        RunStatus.ACTIVE,
        False,
        1,
        -1,
    )
    assert (record.labels, record.workflow, record.created_by) == ({"a": "1"}, "w", ("key", "k1"))
    assert (record.started_at, record.deadline) == (request.time, request.time + TTL_MS)
    assert (record.pending, record.pending_count, record.ended_at) == ((), 0, None)
    owned = await bench.own(request.run)
    assert (owned.claimed.owner_epoch, owned.claimed.commands, owned.claimed.delivered) == (1, 0, -1)


async def test_an_idempotency_key_starts_one_run(bench: Bench) -> None:
    request = await bench.request(route="runs", idempotency_key="k", request_sha256=b"1")
    again = replace(request, run=RunId(str(uuid4())))
    assert (await bench.edge.start_run(request)).outcome is StartOutcome.STARTED
    replayed = await bench.edge.start_run(again)
    assert (replayed.outcome, replayed.run) == (StartOutcome.REPLAYED, request.run)
    conflict = await bench.edge.start_run(replace(again, request_sha256=b"2"))
    assert (conflict.outcome, conflict.run) == (StartOutcome.CONFLICT, request.run)
    assert await bench.edge.get_run(bench.namespace, again.run) is None
    other = await bench.new_namespace()
    assert (await bench.edge.start_run(replace(again, namespace=other))).outcome is StartOutcome.STARTED
    fork = replace(request, run=RunId(str(uuid4())), route="forks")
    assert (await bench.edge.start_run(fork)).outcome is StartOutcome.STARTED


async def test_concurrent_starts_with_one_key_give_one_run(bench: Bench) -> None:
    request = await bench.request(route="runs", idempotency_key="k", request_sha256=b"1")
    verdicts = await asyncio.gather(
        *(bench.edge.start_run(replace(request, run=RunId(str(uuid4())))) for _ in range(10))
    )
    assert len({verdict.run for verdict in verdicts}) == 1
    assert [verdict.outcome for verdict in verdicts].count(StartOutcome.STARTED) == 1


# -- Commands


async def test_commands_take_the_next_seqs_and_foreign_events_stand_between(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    first = await owned.append(draft(call(1), 0, time), draft(log(), 0, time))
    assert (first.appended, first.first_seq, first.next_seq) == (True, 1, 3)
    for number in range(3):
        await bench.event(run, signal("go", id=str(number)))
    second = await owned.append(draft(timer(1), 0, time))
    assert (second.first_seq, second.next_seq) == (6, 7)
    entries = await bench.entries(run)
    assert [entry.seq for entry in entries] == list(range(7))
    assert [entry.cause for entry in entries] == [None, 0, 0, None, None, None, 0]
    assert entries[6].fire_at == second.time + 1000
    assert (await bench.state(run)).calls.keys() == {1}


async def test_events_during_an_activation_refuse_no_commands(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at

    async def commands() -> None:
        for number in range(1, 21):
            assert (await owned.append(draft(call(number), 0, time))).appended

    await asyncio.gather(
        commands(), *(bench.event(run, signal("go", id=str(number))) for number in range(60))
    )
    entries = await bench.entries(run)
    assert [entry.seq for entry in entries] == list(range(81))
    times = [entry.time for entry in entries if entry.cause is None]
    assert times == sorted(times)
    assert len((await bench.state(run)).calls) == 20


async def test_only_the_owner_appends(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    command = draft(call(1), 0, time)
    assert refused(await owned.append(command, worker=nobody()))
    assert refused(await owned.append(command, owner_epoch=owned.claimed.owner_epoch + 1))
    assert refused(await owned.append(command, commands_before=1))
    assert refused(await owned.append(command, namespace=await bench.new_namespace()))
    assert refused(await owned.append(command, run=RunId(str(uuid4()))))
    assert len(await bench.entries(run)) == 1
    assert (await owned.append(command)).appended
    assert refused(await owned.append(command, commands_before=0))


async def test_a_former_owner_appends_nothing(bench: Bench) -> None:
    former = await bench.own()
    run, time = former.claimed.run, (await bench.record(former.claimed.run)).started_at
    assert (
        await former.store.release_runs(former.store.worker, [(bench.namespace, run)]) == 1
    )  # its run_started waits
    assert refused(await former.append(draft(call(1), 0, time)))
    owner = await bench.own(run)
    assert owner.claimed.owner_epoch == former.claimed.owner_epoch + 1
    assert refused(await former.append(draft(call(1), 0, time)))
    # The same worker again: the epoch tells its two ownerships apart.
    await owner.store.release_runs(owner.store.worker, [(bench.namespace, run)])
    again = await bench.own(run, former.store)
    assert refused(await former.append(draft(call(1), 0, time)))
    assert (await again.append(draft(call(1), 0, time))).appended
    assert len(await bench.entries(run)) == 2


async def test_a_report_adds_up_usage_without_an_entry(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await bench.event(run, signal("go"))
    assert (await owned.append(cpu_us=1500, activations=1)).next_seq == 2
    await owned.append(
        draft(call(1), 0, time), delivered=1, cpu_us=500, activations=2, progress=b'{"done":1}'
    )
    record = await bench.record(run)
    assert (record.cpu_us, record.activations, record.delivered, record.last_event) == (2000, 3, 1, 1)
    assert (record.calls, record.progress, record.next_seq) == (1, b'{"done":1}', 3)


# -- What is pending


async def test_pending_things_as_their_commands_made_them(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    due = time + 5000
    verdict = await owned.append(
        draft(call(1, "g.t"), 0, time, line=3, gated=True),
        draft(timer(1, 250), 0, time, line=4),
        draft(timer(2), 0, time, due=due, delay_ms=None),
        draft(e.SignalAwaited(1, "go"), 0, time, line=5),
    )
    rows = {(row.kind, row.n): row for row in (await bench.record(run)).pending}
    assert [(key[0], key[1], row.seq, row.line, row.name) for key, row in rows.items()] == [
        (PendingKind.CALL, 1, 1, 3, "g.t"),
        (PendingKind.TIMER, 1, 2, 4, rows[PendingKind.TIMER, 1].name),
        (PendingKind.TIMER, 2, 3, None, rows[PendingKind.TIMER, 2].name),
        (PendingKind.WAIT, 1, 4, 5, "go"),
    ]
    assert rows[PendingKind.CALL, 1].gated
    assert (rows[PendingKind.TIMER, 1].due, rows[PendingKind.TIMER, 2].due) == (verdict.time + 250, due)
    entries = await bench.entries(run)
    assert [entry.fire_at for entry in entries] == [None, None, verdict.time + 250, due, None]


async def test_an_outcome_settles_a_call_once(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    claim = str(uuid4())
    await owned.append(draft(call(1), 0, time, claim_id=claim), draft(call(2), 0, time))
    assert (await bench.event(run, result(1), attempt=2)).outcome is EventOutcome.NOT_PENDING
    settled = await bench.event(run, result(1), attempt=1)
    assert (settled.outcome, settled.seq, settled.owner) == (EventOutcome.APPENDED, 3, owned.store.worker)
    for attempt in (1, None):
        assert (await bench.event(run, result(1), attempt=attempt)).outcome is EventOutcome.NOT_PENDING
    assert (await bench.event(run, failure(2), attempt=1)).outcome is EventOutcome.NOT_PENDING
    assert (await bench.event(run, failure(2))).outcome is EventOutcome.APPENDED
    assert (await bench.event(run, result(3))).outcome is EventOutcome.NOT_PENDING
    record = await bench.record(run)
    assert (record.pending, record.next_seq, record.last_event) == ((), 5, 4)


async def test_a_call_that_was_late_and_is_begun_again_meanwhile_is_not_settled_as_late(bench: Bench) -> None:
    """Given back and taken again it has the same attempt: what the scheduler has read of the first one says nothing."""
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    first, second = str(uuid4()), str(uuid4())
    await owned.append(draft(call(1), 0, time, claim_id=first, timeout_ms=LEASE_MS))
    await bench.advance(LEASE_MS + 1)
    [lost] = [row for row in await bench.edge.expire_leases(100) if row.run == run]
    [late] = [row for row in await bench.edge.read_due(100) if (row.run, row.kind) == (run, PendingKind.CALL)]
    assert await bench.edge.release_tasks([(bench.namespace, run, 1, 1, 0)], [None]) == [True]
    [task] = await bench.edge.claim_tasks(TaskFilter(ORGANIZATION, bench.namespace), second, 1, LEASE_MS)
    assert task.attempt == lost.attempt == late.attempt
    for event in (lost_lease_event(lost), due_event(late)):
        assert (await bench.edge.append_event(event)).outcome is EventOutcome.NOT_PENDING
    await bench.advance(LEASE_MS + 1)
    assert (await bench.edge.append_event(lost_lease_event(lost))).outcome is EventOutcome.APPENDED


async def test_one_of_many_concurrent_outcomes_is_recorded(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time))
    verdicts = await asyncio.gather(*(bench.event(run, result(1, number)) for number in range(20)))
    assert sorted(verdict.outcome for verdict in verdicts).count(EventOutcome.APPENDED) == 1
    assert len(await bench.entries(run)) == 3


async def test_a_timer_fires_once_and_not_before_its_time(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(timer(1, 60_000), 0, time), draft(timer(2), 0, time))
    due = (await bench.entries(run))[1].fire_at
    assert due is not None
    fired = await bench.event(run, e.TimerFired(1), not_before=due)
    assert (fired.outcome, fired.time) == (EventOutcome.APPENDED, due)
    assert (await bench.event(run, e.TimerFired(1), not_before=due)).outcome is EventOutcome.NOT_PENDING
    # Times do not go back, though the clock is behind now.
    assert (await bench.event(run, signal("go"))).time == due
    await owned.append(draft(e.TimerCleared(2), 0, time))
    assert (await bench.event(run, e.TimerFired(2))).outcome is EventOutcome.NOT_PENDING
    assert (await bench.record(run)).pending == ()


async def test_waits_end_when_they_are_cleared_or_reported_done(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(*(draft(e.SignalAwaited(number, "go"), 0, time) for number in (1, 2, 3, 4)))
    await owned.append(draft(e.SignalWaitCleared(2), 0, time))
    await bench.event(run, signal("go", id="1"))
    await bench.event(run, signal("go", id="2"))
    assert [row.n for row in (await bench.record(run)).pending] == [1, 3, 4]
    await owned.append(delivered=7, waits_done=(1, 3))
    assert [row.n for row in (await bench.record(run)).pending] == [4]
    await owned.append(draft(e.SignalAwaited(5, "go"), 7, time), delivered=7, waits_done=(5,))
    assert [row.n for row in (await bench.record(run)).pending] == [4]


async def test_a_cancelled_call_that_has_not_begun_is_withdrawn_in_the_same_append(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time), draft(call(2), 0, time, claim_id=str(uuid4())))
    await bench.advance(50)
    verdict = await owned.append(
        draft(e.ToolCallCancelled(1), 0, time), draft(e.ToolCallCancelled(2), 0, time), draft(log(), 0, time)
    )
    assert (verdict.first_seq, verdict.next_seq) == (3, 7)
    last = (await bench.entries(run))[-1]
    assert (last.seq, last.type, last.cause, last.body) == (
        6,
        e.EntryType.TOOL_CALL_COMPLETED,
        None,
        withdrawn(1),
    )
    assert last.time >= time + 50
    record = await bench.record(run)
    assert [row.n for row in record.pending] == [2]
    assert record.last_event == 6
    assert (await bench.event(run, result(1))).outcome is EventOutcome.NOT_PENDING
    assert (await bench.event(run, result(2))).outcome is EventOutcome.APPENDED
    assert not (await bench.state(run)).calls


async def test_a_call_made_and_cancelled_in_one_append_is_withdrawn(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    verdict = await owned.append(draft(call(1), 0, time), draft(e.ToolCallCancelled(1), 0, time))
    assert verdict.next_seq == 4
    assert (await bench.record(run)).pending_count == 0
    await bench.state(run)


async def test_a_call_whose_outcome_is_recorded_can_still_be_cancelled(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time), draft(timer(1), 0, time))
    await bench.event(run, result(1))
    await bench.event(run, e.TimerFired(1), not_before=(await bench.record(run)).pending[0].due or 0)
    verdict = await owned.append(draft(e.ToolCallCancelled(1), 0, time), draft(e.TimerCleared(1), 0, time))
    assert (verdict.appended, verdict.next_seq) == (True, 7)
    assert not (await bench.state(run)).calls


# -- Runs that start later


async def held_run(bench: Bench, ms: int = 60_000) -> RunId:
    at = TimeMs(await bench.edge.now() + ms)
    return await bench.start(time=at, held=True)


async def claimable(bench: Bench) -> list[RunId]:
    store = await bench.worker()
    return [claim.run for claim in await store.claim_runs(store.worker, [Epoch(1)], 100)]


async def test_a_held_run_is_recorded_at_once_and_claimed_at_its_time(bench: Bench) -> None:
    run = await held_run(bench)
    (started,) = await bench.entries(run)
    record = await bench.record(run)
    (row,) = record.pending
    assert (row.kind, row.due) == (PendingKind.START, started.time)
    assert row.since < started.time == record.started_at
    assert await claimable(bench) == []
    assert await bench.edge.begin_runs([(bench.namespace, run)]) == 0
    await bench.advance(60_000)
    assert await claimable(bench) == []
    assert await bench.edge.begin_runs([(bench.namespace, run)]) == 1
    assert await bench.edge.begin_runs([(bench.namespace, run)]) == 0
    assert await claimable(bench) == [run]
    assert (await bench.record(run)).pending == ()


async def test_a_signal_does_not_start_a_held_run(bench: Bench) -> None:
    run = await held_run(bench)
    verdict = await bench.event(run, signal("s"))
    assert (verdict.outcome, verdict.seq) == (EventOutcome.APPENDED, 1)
    assert verdict.time == (await bench.record(run)).started_at, "times do not go back"
    assert await claimable(bench) == []
    await bench.advance(60_000)
    await bench.edge.begin_runs([(bench.namespace, run)])
    assert await claimable(bench) == [run]


async def test_a_held_run_that_is_cancelled_is_ready_for_its_end(bench: Bench) -> None:
    run = await held_run(bench)
    verdict = await bench.event(run, e.CancelRequested(reason="user"))
    assert verdict.time == (await bench.record(run)).started_at
    assert (await bench.record(run)).pending == ()
    assert await claimable(bench) == [run]
