"""Runs that start later: recorded at once, shown as waiting for a timer, cancelled without having begun."""

import datetime as dt
from typing import Any

import pytest

from app.responses import iso, time_ms
from app.scheduler.loop import fire_due
from tests.fixtures.api import SCRIPT, Api
from tests.fixtures.database import Clock


async def later(api: Api, ms: int) -> str:
    at = dt.datetime.fromtimestamp((await api.store.now() + ms) / 1000, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def get(api: Api, run: str, tail: str = "", query: str = "") -> Any:
    return (await api.call("GET", f"/v1/runs/{run}{tail}?namespace=acme{query}")).json()


async def test_a_run_that_starts_later(own_api: Api, clock: Clock) -> None:
    at = await later(own_api, 3_600_000)
    run = await own_api.start(start_at=at, ttl="1h")
    assert run["status"] == "active"
    assert run["started_at"] == at
    (timer,) = run["waiting_for"]
    assert (timer["kind"], timer["until"], timer["line"]) == ("timer", at, None)
    assert timer["since"] < at
    (started,) = (await get(own_api, run["id"], "/journal"))["data"]
    assert started["deadline"] - started["time"] == 3_600_000
    await fire_due(own_api.store)
    assert (await get(own_api, run["id"]))["waiting_for"] == run["waiting_for"]
    clock.advance(3_600_000)
    await fire_due(own_api.store)
    assert (await get(own_api, run["id"]))["waiting_for"] == []
    puppet = await own_api.puppet(run["id"])
    await puppet.complete("done")
    ended = await get(own_api, run["id"])
    assert (ended["status"], ended["output"]) == ("completed", "done")


async def test_it_is_blocked_until_then(own_api: Api) -> None:
    run = await own_api.start(start_at=await later(own_api, 3_600_000))
    blocked = await get(own_api, run["id"], query="&wait=30s&until=blocked")
    assert blocked["waiting_for"][0]["kind"] == "timer"


async def test_what_is_cancelled_before_its_start_ends_no_sooner_than_that(own_api: Api) -> None:
    """As its journal has it, where no time is before another's."""
    run = await own_api.start(start_at=await later(own_api, 3_600_000))
    asked = await own_api.call("POST", f"/v1/runs/{run['id']}/cancel?namespace=acme")
    assert asked.status_code == 202
    puppet = await own_api.puppet(run["id"])
    await puppet.cancelled("user", delivered=1)
    ended = await get(own_api, run["id"])
    entries = (await get(own_api, run["id"], "/journal"))["data"]
    assert ended["status"] == "cancelled"
    assert ended["ended_at"] == ended["started_at"] == iso(entries[-1]["time"])


async def test_a_time_that_has_passed_is_now(own_api: Api) -> None:
    run = await own_api.start(start_at=0)
    assert run["waiting_for"] == []
    assert run["started_at"] >= await later(own_api, -60_000)
    await own_api.puppet(run["id"])


async def test_the_deadline_is_counted_from_the_start(own_api: Api, clock: Clock) -> None:
    run = await own_api.start(start_at=await later(own_api, 10_000), ttl="5s")
    clock.advance(9_000)
    await fire_due(own_api.store)
    assert not (await get(own_api, run["id"]))["cancelling"]
    clock.advance(6_100)
    await fire_due(own_api.store)
    assert (await get(own_api, run["id"]))["cancelling"]


@pytest.mark.parametrize("wrong", ["tomorrow", "2030-01-01T00:00:00", True, 1.5, 10**18, -1, [], {}])
async def test_what_is_no_time_is_refused(api: Api, wrong: Any) -> None:
    answer = await api.call(
        "POST", "/v1/runs", json={"script": SCRIPT, "namespace": "acme", "start_at": wrong}
    )
    assert answer.status_code == 400
    assert [error["path"] for error in answer.json()["errors"]] == ["start_at"]


def test_no_ms_is_lost_on_the_way_from_text_and_back() -> None:
    for at in range(1_796_000_000_000, 1_796_000_001_000):
        text = iso(at)
        assert text is not None and time_ms(text) == at
