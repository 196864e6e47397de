"""Fairness at the store's queues: one namespace's crowd leaves room for the single thing of another."""

from collections.abc import Callable
from typing import Any

from sandbox.journal.ids import RunId
from sandbox.store.interface import PendingKind, TaskFilter
from tests.fixtures.entries import call, timer
from tests.fixtures.stores import ORGANIZATION, Bench, draft

CROWD, ROOM = 60, 10
CLAIM = "00000000-0000-4000-8000-000000000001"
DAY_MS = 86_400_000


async def crowd_and_single(bench: Bench, make: Callable[[int], Any]) -> tuple[RunId, RunId]:
    """A run with many pending things, and one of another namespace whose single thing was made after them."""
    other = await bench.new_namespace()
    crowd = await bench.own()
    at = (await bench.record(crowd.claimed.run)).started_at
    await crowd.append(*(draft(make(n), 0, at) for n in range(1, CROWD + 1)), toolset="tools")
    await bench.advance(1_000)
    single = await bench.own(await bench.start(other), crowd.store)
    await single.append(draft(make(1), 0, await bench.edge.now()), toolset="tools")
    return crowd.claimed.run, single.claimed.run


async def test_one_namespaces_due_timers_do_not_hold_up_those_of_another(bench: Bench) -> None:
    crowd, single = await crowd_and_single(bench, timer)
    await bench.advance(DAY_MS - 60_000)
    due = await bench.edge.read_due(ROOM)
    assert [row.run for row in due].count(single) == 1
    assert [row.n for row in due if row.run == crowd] == [*range(1, ROOM)], "in their order, none left out"
    assert {row.kind for row in due} == {PendingKind.TIMER}


async def test_one_namespaces_tasks_do_not_hold_up_those_of_another(bench: Bench) -> None:
    crowd, single = await crowd_and_single(bench, call)
    store = await bench.worker()
    tasks = await store.claim_tasks(TaskFilter(ORGANIZATION), CLAIM, ROOM, 30_000)  # type: ignore[attr-defined]
    assert [task.run for task in tasks].count(single) == 1
    assert [task.call for task in tasks if task.run == crowd] == [*range(1, ROOM)]
