"""What a task's token is good for: one lease of one call, and nothing that no lease stands behind."""

import asyncio
from typing import Any

import pytest

from app.scheduler.loop import fire_due
from app.tasks.tokens import decode_token, encode_token
from tests.fixtures.api import Api
from tests.fixtures.database import Clock
from tests.fixtures.tasks import claim, offered, outcome, settle


def forged(token: str, *, call: int, attempt: int) -> str:
    """What the holder of one token can make up."""
    key = decode_token(token)
    assert key is not None
    return encode_token((key[0], key[1], call, attempt, 0))


async def test_a_release_that_is_repeated_leaves_the_next_lease_alone(api: Api) -> None:
    await offered(api, "a")
    (task,) = await claim(api)
    assert (await settle(api, "release", {"token": task["token"]}))[0]["ok"]
    (again,) = await claim(api)
    assert again["attempt"] == 1
    for verb in ("release", "heartbeat", "defer"):
        (late,) = await settle(api, verb, {"token": task["token"]})
        assert (late["ok"], late.get("code")) == (False, "task_settled"), verb
    assert await claim(api) == [], "a call that somebody works at was offered once more"
    assert (await settle(api, "heartbeat", {"token": again["token"]}))[0]["ok"]


@pytest.mark.parametrize("gated", [False, True])
async def test_a_call_that_has_not_begun_cannot_be_settled(api: Api, *, gated: bool) -> None:
    run, puppet = await offered(api, "a")
    (task,) = await claim(api)
    await puppet.call_tool("echo", {}, gated=gated)
    for attempt, code in ((0, "unknown_token"), (1, "task_settled")):
        token = forged(task["token"], call=2, attempt=attempt)
        for verb, fields in (("complete", {"result": 1}), ("fail", {"error": {"message": "x"}})):
            (refused,) = await settle(api, verb, {"token": token, **fields})
            assert refused["code"] == code, (verb, attempt)
    assert await outcome(api, run) == []


async def test_a_token_for_one_toolset_settles_no_task_of_another(api: Api) -> None:
    run, _ = await offered(api, "a")
    await api.toolset("other", "a")
    narrowed = await api.token("acme", ["tasks:work"], narrow={"toolset": "other"})
    own = await api.token("acme", ["tasks:work"], narrow={"toolset": "support"})
    (task,) = await claim(api)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("complete", {"result": 1}),
        ("fail", {"error": {"message": "x"}}),
    ]
    for verb, fields in [*calls, ("release", {})]:
        (refused,) = await settle(api, verb, {"token": task["token"], **fields}, secret=narrowed)
        assert refused["code"] == "unknown_token", verb
    assert await outcome(api, run) == []
    assert (await settle(api, "complete", {"token": task["token"], "result": 1}, secret=own))[0]["ok"]


@pytest.mark.parametrize("verb", ["complete", "fail"])
async def test_a_repeat_is_known_whatever_the_values_hold(api: Api, verb: str) -> None:
    """U+0000, which Postgres's JSON refuses, and text that looks like the field that is looked for."""
    odd: dict[str, Any] = {"\0": ['"call":1,', "\0", {"call": 1, "x": 0}]}
    outcome_of = {"result": odd} if verb == "complete" else {"error": {"message": "\0", "data": odd}}
    _, puppet = await offered(api)
    for _ in range(3):
        await puppet.call_tool("a", odd)
    tasks = await claim(api, max=3)
    for task in tasks:
        assert (await settle(api, verb, {"token": task["token"], **outcome_of}))[0]["ok"]
    for task in tasks:
        assert (await settle(api, verb, {"token": task["token"], **outcome_of}))[0]["ok"]
        (other,) = await settle(api, "complete", {"token": task["token"], "result": 0})
        assert other["code"] == "task_settled"


async def test_a_deferral_does_not_outlive_the_order_to_stop(own_api: Api, clock: Clock) -> None:
    api = own_api
    run, puppet = await offered(api, "a")
    (task,) = await claim(api)
    answer = await api.call("POST", f"/v1/runs/{run}/cancel?namespace=acme")
    assert answer.status_code == 202
    await puppet.stop_calls()
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat["cancel"]
    assert (await settle(api, "defer", {"token": task["token"], "expires": "20d"}))[0]["ok"]
    clock.advance(30_000)
    await asyncio.wait_for(fire_due(api.store), 10)
    (end,) = await outcome(api, run)
    assert end["error"]["name"] == "OutcomeUnknownError"
