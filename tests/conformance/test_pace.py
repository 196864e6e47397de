"""Limits of tools, in both stores: how many calls at once, how many in a while, how long one waits to begin."""

import asyncio
import json
from typing import Any

import pytest

from sandbox.journal.ids import NamespaceId
from sandbox.store.interface import DueWhy, Route, Task, TaskFilter
from sandbox.store.postgres.tasks import key_of
from tests.fixtures.entries import call, result
from tests.fixtures.stores import ORGANIZATION, Bench, Owned, draft

SLOTS = {"slot": "t", "slots": 2}
RATE = {"slot": "t", "rate": "t", "rate_limit": 3, "per_ms": 1_000}


async def calls(
    owned: Owned, count: int, pace: dict[str, Any] | None, *, first: int = 1, **effects: Any
) -> None:
    effects["pace"] = None if pace is None else json.dumps(pace)
    start = (await owned.bench.edge.read_entries(owned.claimed.namespace, owned.claimed.run, limit=1))[0]
    numbers = range(first, first + count)
    drafts = [draft(call(number, "t"), 0, start.time, **effects) for number in numbers]
    assert (await owned.append(*drafts)).appended


async def claim(
    bench: Bench, claim_id: str, limit: int = 100, namespace: NamespaceId | None = None
) -> list[Task]:
    wanted = TaskFilter(ORGANIZATION, namespace, None, None)
    return await bench.edge.claim_tasks(wanted, claim_id, limit, 30_000)


def ids(start: int) -> Any:
    """Ids of claims, one after the other."""
    return (f"00000000-0000-0000-0000-{number:012d}" for number in range(start, 10**6))


async def test_so_many_at_once_whoever_claims(bench: Bench) -> None:
    owned = await bench.own()
    await calls(owned, 5, SLOTS)
    await calls(owned, 2, None, first=6)
    fresh = ids(1)
    claimed = await asyncio.gather(*(claim(bench, next(fresh)) for _ in range(4)))
    begun = [task for tasks in claimed for task in tasks]
    paced = [task for task in begun if task.call <= 5]
    assert (len(paced), {task.call for task in begun if task.call > 5}) == (2, {6, 7})
    assert await claim(bench, next(fresh)) == []
    await bench.event(owned.claimed.run, result(paced[0].call), attempt=1)
    (third,) = await claim(bench, next(fresh))
    await bench.edge.defer_tasks([key_of(third)], [None])  # still at work
    assert await claim(bench, next(fresh)) == []
    await bench.edge.release_tasks([key_of(paced[1])], [None])
    assert len(await claim(bench, next(fresh))) == 1


async def test_a_key_has_its_own_places(bench: Bench) -> None:
    owned = await bench.own()
    for number, slot in enumerate(("a", "b", "a", "b", "c"), start=1):
        await calls(owned, 1, {"slot": slot, "slots": 1}, first=number)
    begun = {task.call for task in await claim(bench, next(ids(1)))}
    assert begun == {1, 2, 5}


async def test_so_many_in_a_while(bench: Bench) -> None:
    """Never more than the limit in any such while, and all of them in the end."""
    owned = await bench.own()
    await calls(owned, 12, RATE)
    fresh = ids(1)
    begun: list[tuple[int, int]] = []
    for _ in range(100):
        begun += [(task.begun_at, task.call) for task in await claim(bench, next(fresh))]
        await bench.advance(100)
        if len(begun) == 12:
            break
    assert sorted(call for _, call in begun) == list(range(1, 13))
    for at, _ in begun:
        assert sum(at <= other <= at + RATE["per_ms"] for other, _ in begun) <= RATE["rate_limit"]
    assert begun[-1][0] - begun[0][0] <= 3 * 1.5 * RATE["per_ms"]


async def test_no_namespace_takes_all_places(bench: Bench) -> None:
    busy = await bench.own()
    await calls(busy, 20, SLOTS)
    quiet = await bench.own(await bench.start(await bench.new_namespace()))
    await calls(quiet, 1, SLOTS)
    runs = {task.run for task in await claim(bench, next(ids(1)))}
    assert runs == {busy.claimed.run, quiet.claimed.run}


async def test_a_long_queue_of_one_namespace_leaves_claims_to_others(bench: Bench) -> None:
    """A key claims over all its namespaces: they take turns, whoever offered first and however much."""
    busy = await bench.own()
    await calls(busy, 50, None)
    quiet = await bench.own(await bench.start(await bench.new_namespace()))
    await calls(quiet, 2, None)
    fresh = ids(1)
    first = await claim(bench, next(fresh), 2)
    assert {task.run for task in first} == {busy.claimed.run, quiet.claimed.run}
    second = await claim(bench, next(fresh), 2)
    assert {task.run for task in second} == {busy.claimed.run, quiet.claimed.run}
    assert {task.run for task in await claim(bench, next(fresh), 2)} == {busy.claimed.run}


async def test_limited_calls_stand_in_nobodys_way(bench: Bench) -> None:
    owned = await bench.own()
    await calls(owned, 50, {"slot": "t", "slots": 1})
    await calls(owned, 5, None, first=51)
    fresh = ids(1)
    begun = {task.call for _ in range(20) for task in await claim(bench, next(fresh), 1)}
    assert len(begun & set(range(1, 51))) == 1
    assert begun >= set(range(51, 56))


async def test_the_dispatchers_calls_have_limits_too(bench: Bench) -> None:
    owned = await bench.own(await bench.start(toolset="s", toolset_digest="sha256:0"))
    time = (await bench.entries(owned.claimed.run))[0].time
    paced = {"route": Route.DISPATCHER, "pace": json.dumps(SLOTS)}
    drafts = [draft(call(number, "fs.read"), 0, time, **paced) for number in range(1, 5)]
    drafts += [draft(call(5, "fs.list"), 0, time, route=Route.DISPATCHER)]
    assert (await owned.append(*drafts, toolset="s")).appended
    fresh = ids(1)

    async def begin(server_max: int = 32) -> list[Any]:
        return await bench.edge.claim_calls(next(fresh), 10, lease_ms=30_000, server_max=server_max, free={})

    begun = [call for _ in range(3) for call in await begin()]
    assert len(begun) == 3
    assert {call.call for call in begun} >= {5}
    assert {call.paced for call in begun if call.call < 5} <= {True}
    (first, *_) = [call for call in begun if call.call < 5]
    await bench.event(owned.claimed.run, result(first.call), attempt=1)
    assert len([call for _ in range(3) for call in await begin()]) == 1


@pytest.mark.parametrize("timeout_ms", [None, 5_000])
async def test_a_call_waits_so_long_to_begin(bench: Bench, timeout_ms: int | None) -> None:
    owned = await bench.own()
    await calls(owned, 2, {"slot": "t", "queue_ms": 1_000}, timeout_ms=timeout_ms)
    begun, _ = await claim(bench, next(ids(1)), 2)
    await bench.edge.release_tasks([key_of(begun)], [None])  # on offer anew
    await bench.advance(1_001)
    due = [row for row in await bench.edge.read_due(10) if row.why is DueWhy.QUEUE]
    assert [(row.n, row.attempt) for row in due] == [(begun.call, 0)]
    await bench.advance(5_000)
    late = [row for row in await bench.edge.read_due(10) if row.why is DueWhy.TIMEOUT]
    assert len(late) == (0 if timeout_ms is None else 1)
