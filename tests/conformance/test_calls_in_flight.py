"""More calls at once than a run may have in flight: recorded at once, offered as others are settled."""

from sandbox.journal.entries import Limits, ToolCallCancelled
from sandbox.store.interface import EventOutcome, TaskFilter
from tests.fixtures.entries import call, result
from tests.fixtures.stores import ORGANIZATION, Bench, draft

MOST = Limits().calls_in_flight
MADE = MOST + 200
WANTED = TaskFilter(ORGANIZATION)
CLAIM = "00000000-0000-4000-8000-00000000000"


async def claimed(bench: Bench, number: int) -> list[int]:
    store = await bench.worker()
    tasks = await store.claim_tasks(WANTED, f"{CLAIM}{number}", 2 * MADE, 30_000)  # type: ignore[attr-defined]
    return [task.call for task in tasks]


async def test_a_run_has_no_more_calls_in_flight_than_it_may(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    first = [draft(call(n), 0, time) for n in range(1, MOST - 99)]
    await owned.append(*first, toolset="tools")
    await owned.append(*(draft(call(n), 0, time) for n in range(MOST - 99, MADE + 1)), toolset="tools")
    assert len(await bench.entries(run)) == MADE + 1, "all are recorded"
    assert await claimed(bench, 1) == [*range(1, MOST + 1)]
    assert await claimed(bench, 2) == []
    for n in (7, 3):
        verdict = await bench.event(run, result(n))
        assert verdict.outcome is EventOutcome.APPENDED
    assert await claimed(bench, 3) == [MOST + 1, MOST + 2]


async def test_a_call_that_is_withdrawn_leaves_its_place_to_the_next(bench: Bench) -> None:
    owned = await bench.own()
    time = (await bench.record(owned.claimed.run)).started_at
    await owned.append(*(draft(call(n), 0, time) for n in range(1, MADE + 1)), toolset="tools")
    await owned.append(draft(ToolCallCancelled(5), 0, time))
    assert await claimed(bench, 1) == [n for n in range(1, MOST + 2) if n != 5]


async def test_many_calls_one_after_the_other_are_not_kept_back(bench: Bench) -> None:
    owned = await bench.own()
    run, time = owned.claimed.run, (await bench.record(owned.claimed.run)).started_at
    await owned.append(*(draft(call(n), 0, time) for n in range(1, MOST + 1)), toolset="tools")
    assert len(await claimed(bench, 1)) == MOST
    for n in range(1, MOST + 1):
        await bench.event(run, result(n))
    await owned.append(draft(call(MOST + 1), 0, time), toolset="tools")
    assert await claimed(bench, 2) == [MOST + 1]
