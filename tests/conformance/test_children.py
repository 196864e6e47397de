"""What every store does about child runs: one per call, its end told until it is handled, its loss too."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.journal.ids import Json, RunId, Seq, TimeMs
from sandbox.store.interface import LEASE_MS, Route, RunStatus, StartRun
from sandbox.store.postgres.calls import CallKey
from sandbox.store.postgres.children import ChildStart, Waiter
from tests.fixtures.entries import call, result
from tests.fixtures.stores import Bench, Owned, complete, draft

TOOL = "workflows.onboard"
NOBODY = RunId("00000000-0000-7000-8000-0000000000ff")


async def calling(bench: Bench) -> tuple[Owned, CallKey, str]:
    """A run whose call of a workflow was claimed by a dispatcher, and the claim."""
    owned = await bench.own()
    time = (await bench.record(owned.claimed.run)).started_at
    made = draft(call(1, TOOL), 0, time, name=TOOL, route=Route.DISPATCHER, idempotent=True)
    assert (await owned.append(made, toolset="flows")).appended
    return owned, (bench.namespace, owned.claimed.run, 1), await claimed(bench)


async def claimed(bench: Bench) -> str:
    claim = str(uuid4())
    calls = await bench.edge.claim_calls(claim, 10, lease_ms=LEASE_MS, server_max=10, free={})
    assert [found.tool for found in calls] == [TOOL]
    return claim


async def request(bench: Bench, key: CallKey, *, awaited: bool = True, depth: int = 1) -> StartRun:
    parent: dict[str, Json] = {
        "run": key[1],
        "kind": "workflow",
        "call": key[2],
        "awaited": awaited,
        "depth": depth,
    }
    return replace(await bench.request(), parent=parent, workflow="onboard")


async def started(bench: Bench, key: CallKey, claim: str, *, awaited: bool = True) -> RunId:
    asked = await request(bench, key, awaited=awaited)
    assert await bench.edge.start_child(key, claim, asked.run, asked, awaited=awaited) is ChildStart.NEW
    return asked.run


async def ended(bench: Bench, run: RunId, body: Any = None) -> None:
    owned = await bench.own(run)
    time = (await bench.record(run)).started_at
    assert (await owned.append(draft(body or complete("done"), 0, time))).appended


async def news(bench: Bench) -> list[tuple[RunId, bool, RunStatus, Seq | None, RunId]]:
    found = await bench.edge.read_child_news(10)
    return [(one.run, one.orphaned, one.status, one.end_seq, one.parent) for one in found]


async def test_a_call_starts_one_child_and_is_held_by_it(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    place = await bench.edge.call_place(key, claim)
    assert place is not None
    record = await bench.record(owned.claimed.run)
    assert (place.stopping, place.depth, place.deadline) == (False, 0, record.deadline)
    assert await bench.edge.started_child(key) is None
    child = await started(bench, key, claim)
    assert await bench.edge.started_child(key) == child
    (waiter,) = await bench.edge.calls_held_by(bench.namespace, child)
    assert waiter == Waiter(owned.claimed.run, 1, 1, waiter.begun_at)
    assert await bench.edge.call_place(key, claim) is None, "the child has the call now"
    await bench.advance(10 * LEASE_MS)
    assert await bench.edge.expire_leases(10) == [], "it has no lease"
    assert await bench.edge.claim_calls(claim, 10, lease_ms=LEASE_MS, server_max=10, free={}) == []
    (shown,) = (await bench.record(owned.claimed.run)).pending
    assert (shown.n, shown.attempt) == (1, 1)


async def test_a_child_that_was_started_before_is_known(bench: Bench) -> None:
    _, key, claim = await calling(bench)
    asked = await request(bench, key)
    first = await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    again = await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    from_memory = await bench.edge.start_child(key, claim, asked.run, None, awaited=True)
    assert (first, again, from_memory) == (ChildStart.NEW, ChildStart.KNOWN, ChildStart.KNOWN)
    assert len(await bench.entries(asked.run)) == 1
    assert len(await bench.edge.calls_held_by(bench.namespace, asked.run)) == 1


async def test_who_has_lost_the_call_starts_nothing(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    asked = await request(bench, key)
    other = await bench.edge.start_child(key, str(uuid4()), asked.run, asked, awaited=True)
    assert await bench.edge.start_child(key, claim, asked.run, None, awaited=True) is ChildStart.GONE
    await bench.event(owned.claimed.run, result(1))
    settled = await bench.edge.start_child(key, claim, asked.run, asked, awaited=True)
    assert (other, settled) == (ChildStart.GONE, ChildStart.GONE)
    assert await bench.edge.get_run(bench.namespace, asked.run) is None
    assert await bench.edge.call_place(key, claim) is None


async def test_an_end_is_told_until_it_is_handled(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    child = await started(bench, key, claim)
    assert await news(bench) == []
    await ended(bench, child)
    told = [(child, False, RunStatus.COMPLETED, 1, owned.claimed.run)]
    assert await news(bench) == told == await news(bench)
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    assert await news(bench) == []
    assert len(await bench.edge.calls_held_by(bench.namespace, child)) == 1, "its outcome is an append"
    await bench.event(owned.claimed.run, result(1))
    assert await bench.edge.calls_held_by(bench.namespace, child) == []


async def test_a_child_that_has_ended_is_told_of_again_when_it_gets_a_call(bench: Bench) -> None:
    _, key, claim = await calling(bench)
    asked = await request(bench, key)
    await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    await ended(bench, asked.run)
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    assert await bench.edge.start_child(key, claim, asked.run, None, awaited=True) is ChildStart.KNOWN
    assert [run for run, *_ in await news(bench)] == [asked.run]


async def test_a_call_that_is_told_to_stop_shows_its_child(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    child = await started(bench, key, claim)
    assert await bench.edge.children_to_stop(10) == []
    await bench.event(owned.claimed.run, e.CancelRequested("user"))
    await owned.store.stop_calls(bench.namespace, owned.claimed.run, below=None)
    assert await bench.edge.children_to_stop(10) == [(bench.namespace, owned.claimed.run, child)]


async def test_children_that_are_cancelled_already_keep_no_others_waiting(bench: Bench) -> None:
    stopped = []
    for _ in range(2):
        owned, key, claim = await calling(bench)
        stopped.append(await started(bench, key, claim))
        await owned.store.stop_calls(bench.namespace, owned.claimed.run, below=None)
    ((_, _, first),) = await bench.edge.children_to_stop(1)
    await bench.event(first, e.CancelRequested("parent"))
    ((_, _, second),) = await bench.edge.children_to_stop(1)
    assert {first, second} == set(stopped)
    await bench.event(second, e.CancelRequested("parent"))
    assert await bench.edge.children_to_stop(1) == []


async def test_a_run_that_does_not_complete_leaves_orphans(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    child = await started(bench, key, claim)
    run, time = owned.claimed.run, TimeMs((await bench.record(owned.claimed.run)).started_at)
    await bench.event(run, e.ToolCallCompleted(1, None, e.ToolFailure("OutcomeUnknownError", None, "?"), 1))
    failed = e.FailRun(e.ScriptError("Error", "no"))
    assert (await owned.append(draft(failed, 0, time))).appended
    assert await news(bench) == [(child, True, RunStatus.ACTIVE, None, run)]


async def test_neither_a_completed_run_nor_one_that_does_not_wait_leaves_orphans(bench: Bench) -> None:
    for awaited, body in ((True, complete(1)), (False, e.FailRun(e.ScriptError("Error", "no")))):
        owned, key, claim = await calling(bench)
        child = await started(bench, key, claim, awaited=awaited)
        if awaited:
            await ended(bench, child)
            await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
        time = TimeMs((await bench.record(owned.claimed.run)).started_at)
        await bench.event(owned.claimed.run, e.ToolCallCompleted(1, value_of(1), None, 1))
        assert (await owned.append(draft(body, 0, time))).appended
        assert await news(bench) == []


async def test_a_call_that_a_child_gets_while_its_end_is_told_is_news(bench: Bench) -> None:
    """Whoever tells the end has looked for calls by then, and forgets only what it has read."""
    _, key, claim = await calling(bench)
    asked = await request(bench, key)
    await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    await ended(bench, asked.run)
    handling = await bench.edge.read_child_news(10)
    assert await bench.edge.calls_held_by(bench.namespace, asked.run) == []
    assert await bench.edge.start_child(key, claim, asked.run, None, awaited=True) is ChildStart.KNOWN
    await bench.edge.forget_child_news(handling)
    assert [run for run, *_ in await news(bench)] == [asked.run]
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    assert await news(bench) == []


async def test_news_that_somebody_else_has_handled_is_not_forgotten_for_what_follows(bench: Bench) -> None:
    _, key, claim = await calling(bench)
    asked = await request(bench, key)
    await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    await ended(bench, asked.run)
    slow = await bench.edge.read_child_news(10)
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    await bench.edge.start_child(key, claim, asked.run, None, awaited=True)
    await bench.edge.forget_child_news(slow)
    assert [run for run, *_ in await news(bench)] == [asked.run]


UNKNOWN = e.ToolFailure("OutcomeUnknownError", None, "?")
LATE = e.ToolFailure("ToolError", "timeout", "it took too long")


@pytest.mark.parametrize("failure", [UNKNOWN, LATE])
async def test_a_child_that_nobody_waits_for_any_more_is_to_be_cancelled(
    bench: Bench, failure: e.ToolFailure
) -> None:
    """Whatever becomes of the run, and whichever run of the line has started the child."""
    owned, key, claim = await calling(bench)
    asked = replace(await request(bench, key), parent={"run": NOBODY, "kind": "workflow", "call": 1})
    await bench.edge.start_child(key, claim, asked.run, asked, awaited=True)
    await bench.event(owned.claimed.run, e.ToolCallCompleted(1, None, failure, 1))
    assert await news(bench) == [(asked.run, True, RunStatus.ACTIVE, None, NOBODY)]


async def test_a_child_that_has_ended_is_not_to_be_cancelled(bench: Bench) -> None:
    owned, key, claim = await calling(bench)
    child = await started(bench, key, claim)
    await ended(bench, child)
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    await bench.event(owned.claimed.run, result(1))
    assert await news(bench) == []
