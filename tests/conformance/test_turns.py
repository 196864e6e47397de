"""Fairness at the store's queues: one namespace's crowd leaves room for the single thing of another.

Also for who takes one at a time: of those whose turn it is, not always the same comes first.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandbox.journal.ids import Epoch, NamespaceId, RunId
from sandbox.store.interface import PendingKind, Route, TaskFilter
from tests.fixtures.entries import call, timer
from tests.fixtures.stores import ORGANIZATION, Bench, Owned, draft

CROWD, ROOM = 60, 10
CROWDS = 3
CLAIM = "00000000-0000-4000-8000-{:012d}"
DAY_MS = 86_400_000


async def crowds_and_single(bench: Bench, make: Callable[[int], Any], **effects: Any) -> tuple[set[str], str]:
    """Runs of several namespaces with many pending things each, and one whose single thing was made after them.

    Its namespace is the last in any order of ids, so that it is not served by accident.
    """
    *crowds, last = sorted([await bench.new_namespace() for _ in range(CROWDS + 1)])
    store = await bench.owner()
    owned: list[Owned] = []
    for namespace, many in [*((one, CROWD) for one in crowds), (last, 1)]:
        await bench.advance(1_000)
        owned.append(await bench.own(await bench.start(namespace, toolset="tools"), store))
        at = await bench.edge.now()
        await owned[-1].append(
            *(draft(make(n), 0, at, **effects) for n in range(1, many + 1)), toolset="tools"
        )
    return {one.claimed.run for one in owned[:-1]}, owned[-1].claimed.run


async def test_one_namespaces_due_timers_do_not_hold_up_those_of_another(bench: Bench) -> None:
    crowds, single = await crowds_and_single(bench, timer)
    await bench.advance(DAY_MS - 60_000)
    due = await bench.edge.read_due(ROOM)
    assert [row.run for row in due].count(RunId(single)) == 1
    assert {row.kind for row in due} == {PendingKind.TIMER}
    for run in crowds:
        of_it = [row.n for row in due if row.run == run]
        assert of_it == [*range(1, len(of_it) + 1)], "in their order, none left out"


Take = Callable[[Any, int, int], Awaitable[list[str]]]


async def tasks(store: Any, claim: int, limit: int) -> list[str]:
    taken = await store.claim_tasks(TaskFilter(ORGANIZATION), CLAIM.format(claim), limit, 30_000)
    return [task.run for task in taken]


async def calls(store: Any, claim: int, limit: int) -> list[str]:
    server = (ORGANIZATION, "tools", "srv")
    taken = await store.claim_calls(
        CLAIM.format(claim), ROOM, lease_ms=30_000, server_max=32, free={server: limit}
    )
    return [begun.run for begun in taken]


@pytest.mark.parametrize(
    ("take", "route"), [(tasks, Route.HOST), (calls, Route.DISPATCHER)], ids=["tasks", "calls of one server"]
)
@pytest.mark.parametrize("limit", [1, ROOM])
async def test_one_namespaces_calls_do_not_hold_up_those_of_another(
    bench: Bench, take: Take, route: Route, limit: int
) -> None:
    _, single = await crowds_and_single(bench, lambda n: call(n, "srv.do"), route=route)
    store = await bench.worker()
    claims = 2 * CROWD if limit == 1 else 1
    taken = [run for claim in range(claims) for run in await take(store, claim, limit)]
    assert len(taken) == claims * limit
    assert single in taken


async def test_one_namespaces_runs_do_not_hold_up_those_of_another(bench: Bench) -> None:
    """By a worker that has room for one more at a time, and is done with it at once."""
    *crowds, last = sorted([await bench.new_namespace() for _ in range(CROWDS + 1)])
    for namespace in crowds:
        for _ in range(CROWD):
            await bench.start(namespace)
    await bench.start(last)
    store = await bench.owner()
    claimed: list[NamespaceId] = []
    for _ in range(2 * CROWD):
        (one,) = await store.claim_runs(store.worker, [Epoch(1)], 1)
        claimed.append(one.namespace)
    assert last in claimed
