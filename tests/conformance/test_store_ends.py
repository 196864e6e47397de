"""What every store does with signals, cancels, ends, claims and tenants: one suite over both stores."""

import asyncio

import pytest

from sandbox.journal import entries as e
from sandbox.journal.ids import Epoch, NamespaceId, Seq
from sandbox.store.interface import (
    CommandVerdict,
    EventOutcome,
    Guard,
    PendingKind,
    RunStatus,
    Share,
)
from tests.fixtures.entries import call, failure, result, signal, timer
from tests.fixtures.stores import Bench, Owned, complete, draft, log

CANCEL = e.CancelRequested("user")
LIMIT = e.CancelRequested("limit", None, None, "cpu", 1, 2, Seq(0))
ABORTED = e.RunAborted("cpu", 1, 2)


def refused(verdict: CommandVerdict) -> bool:
    return not verdict.appended


# -- Signals


async def test_a_signal_is_recorded_once(bench: Bench) -> None:
    run = await bench.start()
    first = await bench.event(run, signal("go", 1, id="a"))
    again = await bench.event(run, signal("go", 2, id="a"))
    assert (first.outcome, first.seq, first.owner) == (EventOutcome.APPENDED, 1, None)
    assert (again.outcome, again.seq) == (EventOutcome.DUPLICATE, 1)
    other = await bench.start()
    assert (await bench.event(other, signal("go", 1, id="a"))).outcome is EventOutcome.APPENDED
    verdicts = await asyncio.gather(*(bench.event(run, signal("go", id="b")) for _ in range(10)))
    assert [verdict.outcome for verdict in verdicts].count(EventOutcome.APPENDED) == 1
    assert {verdict.seq for verdict in verdicts} == {2}


async def test_signals_leave_the_end_of_the_history_to_outcomes(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time))
    await bench.lengthen(run, 44_999)
    assert (await bench.event(run, signal("go", id="1"))).outcome is EventOutcome.APPENDED
    assert (await bench.event(run, signal("go", id="2"))).outcome is EventOutcome.HISTORY_FULL
    assert (await bench.event(run, result(1))).outcome is EventOutcome.APPENDED
    assert (await bench.event(run, CANCEL)).outcome is EventOutcome.APPENDED


async def test_a_repeated_signal_is_a_duplicate_in_a_full_history_too(bench: Bench) -> None:
    run = await bench.start()
    await bench.event(run, signal("go", id="1"))
    await bench.lengthen(run, 45_000)
    again = await bench.event(run, signal("go", id="1"))
    assert (again.outcome, again.seq) == (EventOutcome.DUPLICATE, 1)


# -- Cancels and ends


async def test_a_run_is_cancelled_once(bench: Bench) -> None:
    run = await bench.start()
    assert (await bench.event(run, CANCEL)).outcome is EventOutcome.APPENDED
    assert (await bench.record(run)).cancelling
    for guard in (Guard.CANCEL, Guard.DEADLINE):
        assert (await bench.event(run, CANCEL, guard=guard)).outcome is EventOutcome.DUPLICATE
    assert len(await bench.entries(run)) == 2


async def test_the_deadline_cancels_once(bench: Bench) -> None:
    run = await bench.start()
    ttl = e.CancelRequested("ttl")
    assert (await bench.event(run, ttl, guard=Guard.DEADLINE)).outcome is EventOutcome.APPENDED
    assert (await bench.event(run, ttl, guard=Guard.DEADLINE)).outcome is EventOutcome.DUPLICATE
    assert (await bench.event(run, CANCEL)).outcome is EventOutcome.DUPLICATE


async def test_a_cancel_leaves_only_calls_pending(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(
        draft(call(1), 0, time), draft(timer(1), 0, time), draft(e.SignalAwaited(1, "go"), 0, time)
    )
    await bench.event(run, CANCEL)
    # Made before the cancel was delivered, appended after it was recorded.
    await owned.append(
        draft(timer(2), 0, time), draft(e.SignalAwaited(2, "go"), 0, time), draft(call(2), 0, time)
    )
    await owned.append(delivered=4, waits_done=(1, 2))
    assert [(row.kind, row.n) for row in (await bench.record(run)).pending] == [
        (PendingKind.CALL, 1),
        (PendingKind.CALL, 2),
    ]
    assert (await bench.event(run, e.TimerFired(1))).outcome is EventOutcome.NOT_PENDING


async def test_an_abort_ends_a_run_that_a_limit_stopped(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time))
    assert (await bench.event(run, ABORTED)).outcome is EventOutcome.NOT_PENDING
    await bench.event(run, LIMIT)
    assert (await bench.event(run, ABORTED)).outcome is EventOutcome.NOT_PENDING
    await bench.event(run, failure(1, attempts=0))
    ended = await bench.event(run, ABORTED)
    assert (ended.outcome, ended.seq) == (EventOutcome.APPENDED, 4)
    record = await bench.record(run)
    assert (record.status, record.end_seq, record.ended_at, record.last_event) == (
        RunStatus.ABORTED,
        4,
        ended.time,
        3,
    )
    assert (await bench.event(run, ABORTED)).outcome is EventOutcome.ENDED
    assert (await bench.state(run)).status == "aborted"


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (complete("ok"), RunStatus.COMPLETED),
        (e.FailRun(e.ScriptError("E", "m")), RunStatus.FAILED),
        (e.CancelRun("user"), RunStatus.CANCELLED),
    ],
    ids=["complete", "fail", "cancel"],
)
async def test_an_end_closes_the_run(bench: Bench, end: object, status: RunStatus) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(
        draft(call(1), 0, time), draft(timer(1), 0, time), draft(e.SignalAwaited(1, "go"), 0, time)
    )
    await bench.event(run, signal("x", id="1"))
    await bench.event(run, result(1))
    if isinstance(end, e.CancelRun):
        await bench.event(run, CANCEL)
    length = (await bench.record(run)).next_seq
    verdict = await owned.append(
        draft(end, length - 1, (await bench.entries(run))[-1].time), delivered=length - 1
    )
    assert (verdict.appended, verdict.first_seq, verdict.next_seq) == (True, length, length + 1)
    record = await bench.record(run)
    assert (record.status, record.end_seq, record.pending_count, record.pending) == (status, length, 0, ())
    assert record.ended_at == verdict.time
    for late in (result(1), signal("x", id="1"), signal("x", id="2"), e.TimerFired(1), CANCEL, ABORTED):
        assert (await bench.event(run, late)).outcome is EventOutcome.ENDED
    assert refused(await owned.append(draft(log(), length - 1, time)))
    assert await owned.store.claim_runs(owned.store.worker, [Epoch(1)], 10) == []
    assert len(await bench.entries(run)) == length + 1
    assert (await bench.state(run)).status == status.name.lower()


async def test_no_run_ends_with_a_call_in_flight(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    with pytest.raises(Exception, match="call in flight"):
        await owned.append(draft(call(1), 0, time), draft(complete(), 0, time))
    assert len(await bench.entries(run)) == 1
    assert (await bench.record(run)).status is RunStatus.ACTIVE
    assert (await owned.append(draft(complete(), 0, time))).appended


async def test_an_impossible_end_takes_no_other_append_with_it(bench: Bench) -> None:
    store = await bench.owner()
    runs = [await bench.start() for _ in range(3)]
    claims = {claim.run: claim for claim in await store.claim_runs(store.worker, [Epoch(1)], 10)}
    owned = [Owned(bench, store, claims[run]) for run in runs]
    time = (await bench.record(runs[0])).started_at
    appends = [
        owned[0].append(draft(call(1), 0, time)),
        owned[1].append(draft(call(1), 0, time), draft(complete(), 0, time)),
        owned[2].append(draft(call(1), 0, time)),
    ]
    verdicts = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(verdict, BaseException) for verdict in verdicts] == [False, True, False]
    assert [len(await bench.entries(run)) for run in runs] == [2, 1, 2]


# -- Quarantine, claims, tenants


async def test_a_quarantined_run_records_events_and_executes_nothing(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time), draft(timer(1, 0), 0, time))
    await owned.store.quarantine(bench.namespace, run, {"field": "args"})
    assert (await bench.record(run)).status is RunStatus.QUARANTINED
    assert refused(await owned.append(draft(log(), 0, time)))
    for event in (result(1), e.TimerFired(1), signal("go")):
        assert (await bench.event(run, event, not_before=0)).outcome is EventOutcome.APPENDED
    assert await owned.store.claim_runs(owned.store.worker, [Epoch(1)], 10) == []
    assert (await bench.record(run)).next_seq == 6


async def test_a_run_is_claimed_while_events_wait_and_by_one_worker(bench: Bench) -> None:
    run = await bench.start()
    first, second = await bench.owner(), await bench.owner()
    claims = await asyncio.gather(
        *(store.claim_runs(store.worker, [Epoch(1)], 10) for store in (first, second))
    )
    assert sorted(len(claimed) for claimed in claims) == [0, 1]
    owner = first if claims[0] else second
    await bench.event(run, signal("go", id="1"))
    assert await second.claim_runs(second.worker, [Epoch(1)], 10) == []
    await owner.release_runs(second.worker if owner is first else first.worker, [(bench.namespace, run)])
    assert await second.claim_runs(second.worker, [Epoch(1)], 10) == []
    owned = Owned(bench, owner, (claims[0] or claims[1])[0])
    await owned.append(delivered=1)
    await owner.release_runs(owner.worker, [(bench.namespace, run)])
    assert await second.claim_runs(second.worker, [Epoch(1)], 10) == []
    await bench.event(run, signal("go", id="2"))
    (claimed,) = await second.claim_runs(second.worker, [Epoch(1)], 10)
    assert (claimed.run, claimed.delivered, claimed.next_seq, claimed.owner_epoch) == (run, 1, 3, 2)


async def test_claims_are_of_served_epochs_and_fair_over_namespaces(bench: Bench) -> None:
    other = await bench.new_namespace()
    old = await bench.start(epoch=Epoch(2))
    for _ in range(20):
        await bench.start()
    for _ in range(3):
        await bench.start(other)
    store = await bench.owner()
    claims = await store.claim_runs(store.worker, [Epoch(1)], 6)
    assert sorted(claim.namespace == other for claim in claims) == [False] * 3 + [True] * 3
    rest = await store.claim_runs(store.worker, [Epoch(1)], 100)
    assert len(rest) == 17
    assert old not in {claim.run for claim in claims + rest}
    assert [claim.run for claim in await store.claim_runs(store.worker, [Epoch(1), Epoch(2)], 100)] == [old]


async def test_a_namespace_gets_no_more_than_its_share_of_a_worker(bench: Bench) -> None:
    other, epochs = await bench.new_namespace(), [Epoch(1)]
    for namespace in (bench.namespace,) * 6 + (other,) * 2:
        await bench.start(namespace)
    store = await bench.owner()
    (claimed,) = await store.claim_runs(store.worker, epochs, 1, Share({bench.namespace: 1}, 4))
    assert claimed.namespace == other, "those with few at work come first"
    claims = await store.claim_runs(store.worker, epochs, 10, Share({bench.namespace: 2, other: 1}, 4))
    assert sorted(claim.namespace == other for claim in claims) == [False] * 2 + [True]
    assert await store.claim_runs(store.worker, epochs, 10, Share({bench.namespace: 5}, 4)) == []
    assert len(await store.claim_runs(store.worker, epochs, 10)) == 4


async def test_another_namespace_sees_and_touches_nothing(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(draft(call(1), 0, time))
    other: NamespaceId = await bench.new_namespace()
    for event in (result(1), signal("go"), CANCEL):
        assert (await bench.event(run, event, namespace=other)).outcome is EventOutcome.UNKNOWN
    assert await bench.edge.get_run(other, run) is None
    assert await bench.edge.read_entries(other, run) == []
    await owned.store.release_runs(owned.store.worker, [(other, run)])
    assert (await owned.append(draft(log(), 0, time))).appended
    assert (await bench.record(run)).next_seq == 3


async def test_entries_are_read_in_pages(bench: Bench) -> None:
    run = await bench.start()
    for number in range(6):
        await bench.event(run, signal("go", id=str(number)))
    pages = [
        await bench.edge.read_entries(bench.namespace, run, after=Seq(after), limit=3)
        for after in (-1, 2, 5, 6)
    ]
    assert [[entry.seq for entry in page] for page in pages] == [[0, 1, 2], [3, 4, 5], [6], []]
