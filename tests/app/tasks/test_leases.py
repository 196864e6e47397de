"""Leases: lengthened, deferred, given back, tried again."""

from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.tasks import claim, offered, outcome, settle


async def test_heartbeats_say_when_to_stop(api: Api) -> None:
    await offered(api, "a")
    (task,) = await claim(api)
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat == {"token": task["token"], "ok": True, "lease_ms": 30_000, "cancel": False}
    await settle(api, "complete", {"token": task["token"], "result": 1})
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert (beat["ok"], beat["code"]) == (False, "task_settled")


async def test_a_cancel_tells_a_task_to_stop_before_its_script_knows(api: Api) -> None:
    run, _ = await offered(api, "a")
    (task,) = await claim(api)
    asked = await api.call("POST", f"/v1/runs/{run}/cancel?namespace=acme")
    assert (asked.status_code, asked.json()["cancelling"]) == (202, True)
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat["cancel"] is True


async def test_a_deferred_task_is_completed_later(own_api: Api, clock: Clock) -> None:
    api = own_api
    run, _ = await offered(api, "a")
    (task,) = await claim(api)
    assert (await settle(api, "defer", {"token": task["token"], "expires": "2d"}))[0]["ok"]
    clock.advance(86_400_000)
    assert await claim(api) == []
    view = (await api.call("GET", f"/v1/runs/{run}?namespace=acme")).json()
    assert view["waiting_for"][0]["deferred"]
    assert (await settle(api, "complete", {"token": task["token"], "result": "late"}))[0]["ok"]


async def test_a_released_task_is_offered_again_as_the_same_attempt(own_api: Api, clock: Clock) -> None:
    api = own_api
    await offered(api, "a")
    (task,) = await claim(api)
    results = await settle(api, "release", {"token": task["token"], "after": "1m"}, {"token": "x"})
    assert [result.get("code") for result in results] == [None, "unknown_token"]
    assert await claim(api) == []
    clock.advance(60_000)
    (again,) = await claim(api)
    assert (again["attempt"], again["idempotency_key"]) == (1, task["idempotency_key"])


async def test_a_failure_is_retried_as_declared(own_api: Api, clock: Clock) -> None:
    api = own_api
    run, _ = await offered(api, "a", retry={"attempts": 3, "backoff": "10s", "max": "15s"})
    (task,) = await claim(api)
    error = {"message": "try again"}
    assert (await settle(api, "fail", {"token": task["token"], "error": error}))[0]["ok"]
    assert (await settle(api, "fail", {"token": task["token"], "error": error}))[0]["ok"]
    assert await outcome(api, run) == []
    clock.advance(9_000)
    assert await claim(api) == []
    clock.advance(1_001)
    (second,) = await claim(api)
    assert (second["attempt"], second["idempotency_key"]) == (2, task["idempotency_key"])
    late = (await settle(api, "complete", {"token": task["token"], "result": 1}))[0]
    assert late["code"] == "task_settled"
    await settle(api, "fail", {"token": second["token"], "error": error})
    clock.advance(15_001)
    (third,) = await claim(api)
    await settle(api, "fail", {"token": third["token"], "error": error})
    (entry,) = await outcome(api, run)
    assert (entry["attempts"], entry["error"]["message"]) == (3, "try again")


async def test_a_failure_that_says_so_is_final(api: Api) -> None:
    run, _ = await offered(api, "a", retry={"attempts": 3})
    (task,) = await claim(api)
    await settle(api, "fail", {"token": task["token"], "error": {"message": "no", "retryable": False}})
    assert len(await outcome(api, run)) == 1
