"""Quotas and usage: each of the seven refuses, months roll over, ends are counted once, and webhooks are told."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

from app.rates import Rates
from sandbox.store.blobs import BlobStore
from tests.app.webhooks.test_webhooks import completed, hook, tell
from tests.fixtures.api import SCRIPT, Api, running_api
from tests.fixtures.database import Clock, psql
from tests.fixtures.receiver import Receiver, receiver

__all__ = ["receiver"]

QUOTAS = "/v1/namespaces/acme/quotas"
DAY_MS = 86_400_000
WAYS_OUT = {
    "active_runs": "Wait until some have ended, or cancel some",
    "runs_per_month": "It begins anew at 20",
    "cpu_ms_per_month": "It begins anew at 20",
    "scripts_per_month": "It begins anew at 20",
    "storage_bytes": "Delete runs that have ended",
    "ttl_max": "Ask for a shorter one",
    "script_bytes_max": "Send a shorter one",
}
"""What each refusal says to do next."""


async def limit(api: Api, **limits: int | None) -> dict[str, Any]:
    await api.call("PUT", "/v1/namespaces/acme", json={})
    answer = await api.call("PATCH", QUOTAS, json=limits)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def quotas(api: Api) -> dict[str, Any]:
    return dict((await api.call("GET", QUOTAS)).json())


async def refused(api: Api, quota: str, **fields: Any) -> dict[str, Any]:
    body = {"script": SCRIPT, "namespace": "acme", **fields}
    answer = await api.call("POST", "/v1/runs", json=body, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 429, answer.text
    problem = dict(answer.json())
    assert (problem["code"], problem["quota"]) == ("quota_exceeded", quota)
    waits = quota not in {"ttl_max", "script_bytes_max"}
    assert ("retry-after" in answer.headers) == waits
    assert WAYS_OUT[quota] in problem["detail"] and "raise the quota" in problem["detail"]
    return problem


async def test_as_many_runs_are_active_as_may_be(api: Api) -> None:
    await limit(api, active_runs=2)
    first = await api.start()
    await api.start()
    problem = await refused(api, "active_runs")
    assert (problem["limit"], problem["used"], problem["resets_at"]) == (2, 2, None)
    puppet = await api.puppet(first["id"])
    await puppet.complete(1)
    started = await api.call(
        "POST", "/v1/runs", json={"script": SCRIPT, "namespace": "acme"}, headers={"Idempotency-Key": "k"}
    )
    assert started.status_code == 201, "a refusal keeps no idempotency key"
    assert (await quotas(api))["active_runs"] == {"limit": 2, "used": 2, "source": "namespace"}
    await api.start("other")


async def test_a_hundred_starts_at_once_on_two_apis(
    database_url: str, blobs: BlobStore, tmp_path: Path
) -> None:
    async with (
        running_api(database_url, blobs, tmp_path / "a") as one,
        running_api(database_url, blobs, tmp_path / "b") as two,
    ):
        await limit(one, active_runs=10)
        await one.start()
        body = {"script": SCRIPT, "namespace": "acme"}
        answers = await asyncio.gather(
            *((one, two)[n % 2].call("POST", "/v1/runs", json=body, secret=one.key) for n in range(100))
        )
        assert sorted(answer.status_code for answer in answers) == [201] * 9 + [429] * 91
        assert (await quotas(one))["active_runs"]["used"] == 10


async def test_months_roll_over(own_api: Api, clock: Clock) -> None:
    await limit(own_api, runs_per_month=2)
    await own_api.start()
    await own_api.start()
    problem = await refused(own_api, "runs_per_month")
    assert problem["resets_at"].endswith("-01T00:00:00.000Z")
    clock.advance(32 * DAY_MS)
    await own_api.start()
    assert (await quotas(own_api))["runs_per_month"]["used"] == 1


async def test_the_year_turns_in_utc_wherever_the_database_is(
    database_url: str, clock: Clock, blobs: BlobStore, tmp_path: Path
) -> None:
    psql(
        database_url,
        "alter database "
        + database_url.split("?", maxsplit=1)[0].rsplit("/", 1)[1]
        + " set timezone = 'America/New_York'",
    )
    async with running_api(database_url, blobs, tmp_path / "h") as api:
        await limit(api, runs_per_month=1)
        now = dt.datetime.fromtimestamp(clock.now() / 1000, dt.UTC)
        turn = dt.datetime(now.year + 1, 1, 1, tzinfo=dt.UTC)
        clock.advance(int(turn.timestamp() * 1000) - clock.now() - 60_000)
        spanning = await api.start()
        puppet = await api.puppet(spanning["id"])
        assert spanning["started_at"].startswith(f"{now.year}-12-31T23:59")
        problem = await refused(api, "runs_per_month")
        assert problem["resets_at"] == f"{now.year + 1}-01-01T00:00:00.000Z"
        clock.advance(60_000)
        assert (await quotas(api))["runs_per_month"]["used"] == 0
        await api.start()
        await puppet.complete(1)
        view = await quotas(api)
        assert (view["runs_per_month"]["used"], view["active_runs"]["used"]) == (1, 1)
        assert view["cpu_ms_per_month"]["used"] == 1, "CPU counts in the month in which it was used"
        data = (await api.call("GET", f"/v1/usage?from={now.year}-12-31&to={now.year + 1}-01-02")).json()[
            "data"
        ]
        assert [(row["date"], row["runs"], row["cpu_ms"]) for row in data] == [
            (f"{now.year}-12-31", 1, 0),
            (f"{now.year + 1}-01-01", 1, 1),
        ]


async def test_cpu_of_the_month(own_api: Api, clock: Clock) -> None:
    await limit(own_api, cpu_ms_per_month=3)
    for _ in range(2):
        await completed(own_api)  # 1.5 ms each
    assert (await quotas(own_api))["cpu_ms_per_month"]["used"] == 3
    await refused(own_api, "cpu_ms_per_month")
    clock.advance(32 * DAY_MS)
    await own_api.start()


async def test_new_scripts_of_the_month(own_api: Api) -> None:
    await limit(own_api, scripts_per_month=1)
    await own_api.start()
    await own_api.start()
    other = SCRIPT + "// another"
    await refused(own_api, "scripts_per_month", script=other)
    check = await own_api.call("POST", "/v1/scripts/check", json={"script": other, "namespace": "acme"})
    assert check.status_code == 429, check.text
    assert (await quotas(own_api))["scripts_per_month"]["used"] == 1


async def test_what_a_namespace_stores(own_api: Api) -> None:
    await completed(own_api, "x" * 20_000)
    used = (await quotas(own_api))["storage_bytes"]["used"]
    assert 20_000 < used < 25_000
    await limit(own_api, storage_bytes=used)
    await refused(own_api, "storage_bytes")
    await limit(own_api, storage_bytes=None)
    await own_api.start(input="y" * 100_000)
    assert (await quotas(own_api))["storage_bytes"]["used"] > used + 100_000


async def test_longer_and_larger_than_may_be(api: Api) -> None:
    await limit(api, ttl_max=60_000, script_bytes_max=len(SCRIPT))
    problem = await refused(api, "ttl_max", ttl="2m")
    assert (problem["limit"], problem["used"], problem["resets_at"]) == (60_000, 120_000, None)
    await refused(api, "script_bytes_max", script=SCRIPT + " ")
    run = await api.start()
    assert run["deadline"] > run["started_at"]
    too_long = await api.call("PATCH", QUOTAS, json={"ttl_max": 31 * DAY_MS})
    assert too_long.json()["errors"][0]["path"] == "ttl_max"
    negative = await api.call("PATCH", QUOTAS, json={"active_runs": -1})
    assert negative.json()["errors"][0]["path"] == "active_runs"


async def test_null_is_the_plans_again(api: Api) -> None:
    view = await limit(api, active_runs=5)
    assert view["active_runs"] == {"limit": 5, "used": 0, "source": "namespace"}
    assert view["runs_per_month"] == {"limit": None, "used": 0, "source": "plan"}
    view = await limit(api, active_runs=None)
    assert view["active_runs"]["source"] == "plan"


async def test_usage_by_day(own_api: Api, clock: Clock) -> None:
    await completed(own_api, "x" * 5_000)
    clock.advance(DAY_MS)
    await completed(own_api)
    await completed(own_api, namespace="other")
    data = (await own_api.call("GET", "/v1/usage")).json()["data"]
    assert [(row["namespace"], row["runs"], row["cpu_ms"]) for row in data] == [
        ("acme", 1, 1),
        ("acme", 1, 1),
        ("other", 1, 1),
    ]
    assert data[0]["date"] < data[1]["date"]
    assert data[1]["storage_bytes"] > data[0]["storage_bytes"] > 5_000
    only = (await own_api.call("GET", f"/v1/usage?namespace=other&from={data[1]['date']}")).json()["data"]
    assert only == [data[2]]
    wrong = await own_api.call("GET", "/v1/usage?from=2026-13-01")
    assert wrong.json()["errors"][0]["path"] == "from"


async def test_webhooks_are_told_once(own_api: Api, clock: Clock, receiver: Receiver) -> None:
    made = await hook(own_api, receiver.url, events=["quota.exceeded"])
    await limit(own_api, active_runs=0, ttl_max=1)
    for _ in range(3):
        await refused(own_api, "ttl_max", ttl=2)
    await limit(own_api, ttl_max=None)
    for _ in range(3):
        await refused(own_api, "active_runs")
    await tell(own_api)
    messages = [got.verified(made["secret"]) for got in receiver.got]
    told = {message["data"]["quota"]: message["data"] for message in messages}
    assert len(messages) == len(told) == 2, "once each; messages of one moment come in any order"
    assert told.keys() == {"ttl_max", "active_runs"}
    assert told["active_runs"] == {
        "namespace": "acme", "quota": "active_runs", "limit": 0, "used": 0, "resets_at": None
    }  # fmt: skip
    clock.advance(DAY_MS)
    await refused(own_api, "active_runs")
    await tell(own_api)
    assert len(receiver.got) == 3


async def test_a_key_that_asks_too_often_waits(api: Api) -> None:
    object.__setattr__(api.services, "rates", Rates(3))
    answers = [await api.call("GET", "/v1/me") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[0].headers["ratelimit-policy"] == '"requests";q=3;w=60'
    assert answers[2].headers["ratelimit"].startswith('"requests";r=0;t=')
    assert answers[3].json()["code"] == "rate_limited"
    documented = (await api.call("GET", "/openapi.json")).json()["paths"]["/v1/me"]["get"]["responses"]
    assert "`rate_limited`" in documented["429"]["description"]
    remaining = [answer.headers["ratelimit-remaining"] for answer in answers]
    assert remaining == ["2", "1", "0", "0"], "a refusal says it too"
    assert {answer.headers["ratelimit-limit"] for answer in answers} == {"3"}
    assert 1 <= int(answers[3].headers["ratelimit-reset"]) <= 60
    assert 1 <= int(answers[3].headers["retry-after"]) <= 60
