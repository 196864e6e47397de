"""A run that is started as a fork: nothing of its own happens before all that it reuses is recorded."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import TYPE_OF, encode_body
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Json, RunId, Seq, Sha256, TimeMs
from sandbox.journal.state import fold
from sandbox.store.forks import ForkAppend, ForkDone, ForkEntry, ForkPending
from sandbox.store.interface import (
    EventAppend,
    EventOutcome,
    Guard,
    PendingKind,
    RunStatus,
    StartOutcome,
    TaskFilter,
)
from sandbox.store.memory import decoded
from tests.fixtures.entries import call, run_started, signal, timer
from tests.fixtures.stores import ORGANIZATION, Bench, Owned, complete, draft

PARENT = RunId("00000000-0000-7000-8000-000000000001")
AGO_MS = 1_000_000
REPORT: dict[str, Json] = {
    "reused": {"calls": 1, "signals": 1, "timers": 0},
    "dropped": ["\0"],
    "diverged_at": None,
}


async def start(bench: Bench) -> tuple[RunId, TimeMs]:
    """A fork of a run that began some time ago, and its time."""
    if await bench.edge.get_run(bench.namespace, PARENT) is None:
        parent = await bench.own(await bench.start(run=PARENT))
        await parent.append(draft(complete(), 0, (await bench.record(PARENT)).started_at))
    now = await bench.edge.now()
    time = TimeMs(now - AGO_MS)
    started = run_started(parent=e.Parent(PARENT, "fork"), forked_at=now)
    run = await bench.start(
        body=encode_body(started),
        time=time,
        ttl_ms=AGO_MS + 60_000,
        parent={"run": PARENT, "kind": "fork"},
        fork={"forked_at": now, "at": 7},
    )
    return run, time


def entry(body: Any, time: int | None, cause: int | None = None, **more: Any) -> ForkEntry:
    number = next((getattr(body, name) for name in ("call", "timer", "wait") if hasattr(body, name)), 0)
    return ForkEntry(
        TYPE_OF[type(body)],
        None if time is None else TimeMs(time),
        None if cause is None else Seq(cause),
        encode_body(body),
        n=number,
        **more,
    )


def prefix(time: int) -> list[ForkEntry]:
    """A call with its outcome, a signal, two timers, a call that is made anew."""
    return [
        entry(call(1), time, 0),
        entry(timer(1), time, 0, fire_at=TimeMs(time + 5_000)),
        entry(e.ToolCallCompleted(1, value_of(1), None, 1, None, Seq(3)), time + 10),
        entry(timer(2, 700), time + 10, 3, delay_ms=700),
        entry(call(2, "other"), time + 10, 3),
        entry(replace(signal("go", 1, "s1"), reused=Seq(9)), time + 20, signal_id="s1"),
    ]


def pending() -> list[ForkPending]:
    return [
        ForkPending(PendingKind.TIMER, 1, Seq(2), "sleep", 4),
        ForkPending(PendingKind.TIMER, 2, Seq(4), "sleep", 5),
        ForkPending(PendingKind.CALL, 2, Seq(5), "other", 6, idempotent=True),
    ]


def done(**changes: Any) -> ForkDone:
    known = ForkDone(
        report=REPORT,
        delivered=Seq(3),
        last_event=Seq(6),
        commands=4,
        calls=2,
        cpu_us=5,
        activations=2,
        organization=ORGANIZATION,
        toolset=None,
        pending=pending(),
        signals=[("s1", Seq(6))],
    )
    return replace(known, **changes)


async def append(
    owned: Owned, first: int, entries: list[ForkEntry], done: ForkDone | None = None, **more: Any
) -> bool:
    chunk = ForkAppend(
        owned.claimed.namespace,
        owned.claimed.run,
        owned.store.worker,
        owned.claimed.owner_epoch,
        Seq(first),
        entries,
        done,
    )
    return (await owned.store.append_fork(replace(chunk, **more))).appended


async def event(bench: Bench, run: RunId, body: Any, guard: Guard, **more: Any) -> EventOutcome:
    asked = EventAppend(bench.namespace, run, TYPE_OF[type(body)], encode_body(body), guard, **more)
    return (await bench.edge.append_event(asked)).outcome


async def test_chunks_make_a_run_like_any_other(bench: Bench) -> None:
    run, time = await start(bench)
    owned = await bench.own(run)
    facts = await bench.record(run)
    assert (facts.fork, facts.fork_report, facts.parent) == (
        {"forked_at": time + AGO_MS, "at": 7},
        None,
        {"run": PARENT, "kind": "fork"},
    )
    assert facts.started_at == time + AGO_MS
    entries = prefix(time)
    assert await append(owned, 1, entries[:2])
    assert (await bench.record(run)).pending == ()
    assert await append(owned, 3, entries[2:], done())
    stored = await bench.entries(run)
    state = fold(map(decoded, stored))
    assert [x.time for x in stored] == [time, time, time, time + 10, time + 10, time + 10, time + 20]
    record = await bench.record(run)
    assert {(row.kind, row.n) for row in record.pending} == {
        (PendingKind.TIMER, 1),
        (PendingKind.TIMER, 2),
        (PendingKind.CALL, 2),
    }
    assert set(state.calls) == {2}
    assert {row.n: row.due for row in record.pending if row.kind is PendingKind.TIMER} == {
        1: time + 5_000,
        2: stored[4].fire_at,
    }
    assert stored[4].fire_at is not None
    assert stored[4].fire_at >= time + AGO_MS + 700
    assert (record.delivered, record.last_event, record.next_seq, record.calls) == (3, 6, 7, 2)
    assert record.fork_report is not None
    # From here on its owner appends commands, and whoever is entitled events.
    owned.commands, owned.delivered = 4, 3
    assert (
        await event(bench, run, signal("go", 1, "s1"), Guard.SIGNAL, signal_id="s1") is EventOutcome.DUPLICATE
    )
    assert (
        await event(bench, run, signal("go", 1, "s2"), Guard.SIGNAL, signal_id="s2") is EventOutcome.APPENDED
    )
    assert (await owned.append(delivered=6)).appended


async def test_what_happens_to_a_fork_that_is_being_made_waits(bench: Bench) -> None:
    run, time = await start(bench)
    owned = await bench.own(run)
    entries = prefix(time)
    assert (
        await event(bench, run, signal("go", 1, "s2"), Guard.SIGNAL, signal_id="s2") is EventOutcome.APPENDED
    )
    assert await append(owned, 1, entries[:2])
    assert (
        await event(bench, run, signal("go", 1, "s2"), Guard.SIGNAL, signal_id="s2") is EventOutcome.DUPLICATE
    )
    assert await event(bench, run, e.TimerFired(1), Guard.TIMER, n=1) is EventOutcome.NOT_PENDING
    assert await event(bench, run, e.CancelRequested("ttl"), Guard.DEADLINE) is EventOutcome.APPENDED
    assert await event(bench, run, e.CancelRequested("user"), Guard.CANCEL) is EventOutcome.DUPLICATE
    assert len(await bench.entries(run)) == 3
    assert (await bench.record(run)).cancelling
    assert await append(owned, 3, entries[2:], done())
    assert [x.type for x in (await bench.entries(run))[6:]] == [
        EntryType.SIGNAL_RECEIVED,
        EntryType.SIGNAL_RECEIVED,
        EntryType.CANCEL_REQUESTED,
    ]
    record = await bench.record(run)
    assert record.cancelling
    assert record.last_event == 8
    assert await event(bench, run, e.CancelRequested("user"), Guard.CANCEL) is EventOutcome.DUPLICATE


async def test_a_chunk_is_refused_to_others_and_where_the_journal_has_gone_on(bench: Bench) -> None:
    run, time = await start(bench)
    owned = await bench.own(run)
    entries = prefix(time)
    assert not await append(owned, 2, entries[:1])
    assert not await append(owned, 1, entries[:1], worker=owned.store.worker + 2)
    assert not await append(owned, 1, entries[:1], owner_epoch=owned.claimed.owner_epoch + 1)
    assert await append(owned, 1, entries[:1])
    assert not await append(owned, 1, entries[:1])
    assert await append(owned, 2, entries[1:], done())
    assert not await append(owned, 7, [entry(e.Log("info", []), time, 3)])
    assert len(await bench.entries(run)) == 7


async def test_a_fork_may_end_with_what_it_reuses(bench: Bench) -> None:
    run, time = await start(bench)
    owned = await bench.own(run)
    assert (
        await event(bench, run, signal("go", 1, "s2"), Guard.SIGNAL, signal_id="s2") is EventOutcome.APPENDED
    )
    assert (
        await event(bench, run, signal("go", 1, "s1"), Guard.SIGNAL, signal_id="s1") is EventOutcome.APPENDED
    )
    assert await event(bench, run, e.CancelRequested("user"), Guard.CANCEL) is EventOutcome.APPENDED
    whole = done(
        delivered=Seq(1), last_event=Seq(1), commands=1, calls=0, pending=[], signals=[("s1", Seq(1))]
    )
    chunk = [
        entry(replace(signal("go", 1, "s1"), reused=Seq(9)), time + 20, signal_id="s1"),
        entry(complete(), time + 20, 1),
    ]
    assert await append(owned, 1, chunk, replace(whole, ends=RunStatus.COMPLETED))
    record = await bench.record(run)
    assert (record.status, record.end_seq, record.next_seq) == (RunStatus.COMPLETED, 4, 5)
    assert record.cancelling, "somebody did, however it ended"
    assert [x.type for x in await bench.entries(run)][1:] == [
        EntryType.SIGNAL_RECEIVED,
        EntryType.SIGNAL_RECEIVED,
        EntryType.CANCEL_REQUESTED,
        EntryType.COMPLETE_RUN,
    ], "what was accepted is recorded before the end; a signal that is reused is none of it"
    assert fold([decoded(x) for x in await bench.entries(run)]).status == "completed"


async def test_outcomes_without_a_time_get_that_of_the_append(bench: Bench) -> None:
    run, time = await start(bench)
    owned = await bench.own(run)
    lost = e.ToolCallCompleted(1, None, e.ToolFailure("OutcomeUnknownError", None, "?"), 1)
    ends = done(delivered=Seq(0), last_event=Seq(2), commands=1, calls=1, pending=[], signals=[])
    assert await append(owned, 1, [entry(call(1), time, 0), entry(lost, None)], ends)
    stored = await bench.entries(run)
    assert stored[1].time == time
    assert stored[2].time >= time + AGO_MS


async def test_big_values_that_a_fork_reuses_are_named_by_it(bench: Bench) -> None:
    if bench.admin is None:
        pytest.skip("the double keeps no references: it has no collector")
    run, time = await start(bench)
    owned = await bench.own(run)
    big = e.Value(Sha256("ab" * 32), 70_000, None)
    reused = entry(e.ToolCallCompleted(1, big, None, 1, None, Seq(3)), time + 10)
    assert await append(owned, 1, [entry(call(1), time, 0), reused])
    named = await bench.admin.fetch("select run_id::text, sha256 from value_refs")
    assert [(row["run_id"], row["sha256"].hex()) for row in named] == [(run, big.sha256)]


async def test_calls_beyond_what_may_be_in_flight_are_offered_later(bench: Bench) -> None:
    most = e.Limits().calls_in_flight
    run, time = await start(bench)
    owned = await bench.own(run)
    calls = [entry(call(n, "t", n), time, 0) for n in range(1, most + 3)]
    rows = [ForkPending(PendingKind.CALL, n, Seq(n), "t", 1) for n in range(1, most + 3)]
    whole = done(
        delivered=Seq(0), last_event=Seq(0), commands=most + 2, calls=most + 2, pending=rows, signals=[]
    )
    assert await append(owned, 1, calls, whole)
    claims = [
        await bench.edge.claim_tasks(TaskFilter(ORGANIZATION), str(uuid4()), most + 2, 30_000)
        for _ in range(2)
    ]
    assert [len(tasks) for tasks in claims] == [most, 0]
    await bench.event(run, e.ToolCallCompleted(1, value_of(1), None, 1))
    [task] = await bench.edge.claim_tasks(TaskFilter(ORGANIZATION), str(uuid4()), most + 2, 30_000)
    assert task.call == most + 1


async def test_a_fork_of_a_run_that_is_gone_does_not_start(bench: Bench) -> None:
    gone: dict[str, Json] = {"run": "00000000-0000-7000-8000-0000000000ff", "kind": "fork"}
    request = await bench.request(
        parent=gone, fork={"forked_at": 1}, route="forks", idempotency_key="k", request_sha256=b"1"
    )
    assert (await bench.edge.start_run(request)).outcome is StartOutcome.GONE
    assert await bench.edge.get_run(bench.namespace, request.run) is None
    other = replace(request, parent=None, fork=None, request_sha256=b"2")
    assert (await bench.edge.start_run(other)).outcome is StartOutcome.STARTED, "its key is free"
