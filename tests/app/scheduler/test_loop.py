"""What is due happens: never early, in order, once, and as the rules of calls say."""

from typing import Any

from app.scheduler.loop import fire_due
from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.tasks import claim, offered, outcome, settle

LEASE_MS = 30_000
DAY_MS = 86_400_000


async def entries(api: Api, run: str, *types: str) -> list[dict[str, Any]]:
    found = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return [entry for entry in found.json()["data"] if entry["type"] in types]


async def test_a_timer_fires_when_it_is_due_and_not_before(own_api: Api, clock: Clock) -> None:
    run = (await own_api.start())["id"]
    await (await own_api.puppet(run)).sleep(60_000)
    clock.advance(59_000)
    await fire_due(own_api.store)
    assert await entries(own_api, run, "timer_fired") == []
    clock.advance(1_000)
    await fire_due(own_api.store)
    await fire_due(own_api.store)
    started, fired = await entries(own_api, run, "start_timer", "timer_fired")
    assert fired["timer"] == 1
    assert fired["time"] >= started["fire_at"]


async def test_timers_of_a_run_fire_in_the_order_of_their_times(own_api: Api, clock: Clock) -> None:
    run = (await own_api.start())["id"]
    puppet = await own_api.puppet(run)
    delays = [3_000, 1_000, 2_000, 1_000]
    for timer, delay in enumerate(delays, start=1):
        await puppet.sleep(delay, timer=timer)
    clock.advance(10_000)
    await fire_due(own_api.store)
    fired = [entry["timer"] for entry in await entries(own_api, run, "timer_fired")]
    assert fired == [2, 4, 3, 1]


async def test_a_run_is_cancelled_at_its_deadline(own_api: Api, clock: Clock) -> None:
    run = (await own_api.start(ttl="1h"))["id"]
    clock.advance(3_600_000)
    await fire_due(own_api.store)
    await fire_due(own_api.store)
    (entry,) = await entries(own_api, run, "cancel_requested")
    assert entry["reason"] == "ttl"


async def test_o19_thirty_days_are_no_overflow(own_api: Api, clock: Clock) -> None:
    """More than 2^31 ms: a timer and a deadline, neither before its time."""
    run = (await own_api.start(ttl="30d"))["id"]
    puppet = await own_api.puppet(run)
    for timer, days in enumerate((25, 60), start=1):
        await puppet.sleep(days * DAY_MS, timer=timer)
    day = 0.0
    happened: list[int | str] = []
    for until, what in ((24.99, None), (25.01, 1), (29.99, None), (30.01, "ttl"), (59.99, None), (60.01, 2)):
        clock.advance(int((until - day) * DAY_MS))
        await fire_due(own_api.store)
        day = until
        happened += [] if what is None else [what]
        found = await entries(own_api, run, "timer_fired", "cancel_requested")
        assert [entry.get("timer") or entry["reason"] for entry in found] == happened, f"day {day}"


async def test_a_lost_call_is_offered_again_only_if_it_may_be_repeated(own_api: Api, clock: Clock) -> None:
    lost, _ = await offered(own_api, "charge")
    again, _ = await offered(own_api, "look_up")
    async with own_api.store.pool.system.acquire() as connection:
        await connection.execute("update pending set idempotent = true where run_id = $1", again)
    assert len(await claim(own_api)) == 2
    clock.advance(LEASE_MS + 1)
    await fire_due(own_api.store)
    (entry,) = await outcome(own_api, lost)
    assert (entry["error"]["name"], entry["attempts"]) == ("OutcomeUnknownError", 1)
    (task,) = await claim(own_api)
    assert (task["tool"], task["attempt"]) == ("look_up", 2)


async def test_a_call_that_was_told_to_stop_is_not_offered_again(own_api: Api, clock: Clock) -> None:
    run, puppet = await offered(own_api, "a", "b")
    first, second = await claim(own_api)
    async with own_api.store.pool.system.acquire() as connection:
        await connection.execute("update pending set idempotent = true where run_id = $1 and kind = 0", run)
    owner, claimed = puppet._owner, puppet._claimed
    assert claimed is not None
    await owner.stop_calls(claimed.namespace, claimed.run, below=None)
    assert (await settle(own_api, "heartbeat", {"token": first["token"]}))[0]["cancel"]
    assert (await settle(own_api, "release", {"token": second["token"]}))[0]["ok"]
    assert await claim(own_api) == []
    clock.advance(LEASE_MS + 1)
    await fire_due(own_api.store)
    await fire_due(own_api.store)
    found = {
        entry["call"]: (entry["error"]["name"], entry["attempts"]) for entry in await outcome(own_api, run)
    }
    assert found == {first["call"]: ("OutcomeUnknownError", 1), second["call"]: ("CancelledError", 0)}


async def test_a_timeout_counts_from_the_first_claim(own_api: Api, clock: Clock) -> None:
    await own_api.toolset("support", "slow")
    run = (await own_api.start(toolset="support"))["id"]
    puppet = await own_api.puppet(run)
    await puppet.call_tool("slow", {}, timeout_ms=10_000)
    clock.advance(20_000)
    await fire_due(own_api.store)
    assert await outcome(own_api, run) == []
    await claim(own_api)
    clock.advance(10_001)
    await fire_due(own_api.store)
    (entry,) = await outcome(own_api, run)
    assert (entry["error"]["name"], entry["error"]["code"]) == ("ToolError", "timeout")
