"""Tasks: claimed, settled once, retried as declared."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from app.tasks.leases import Leases
from tests.fixtures.api import Api
from tests.fixtures.tasks import Json, claim, offered, outcome, post, settle
from tests.fixtures.turns import turn

# -- Claims


async def test_a_task_has_what_a_worker_needs(api: Api) -> None:
    run, _ = await offered(api, "github.close")
    (task,) = await claim(api)
    token = task.pop("token")
    assert task == {
        "run": run,
        "namespace": "acme",
        "call": 1,
        "tool": "github.close",
        "args": {"n": 0},
        "attempt": 1,
        "idempotency_key": f"{run}/1",
        "lease_ms": 30_000,
        "labels": {"team": "ops"},
    }
    assert isinstance(token, str) and token
    assert await claim(api) == []


async def test_a_parked_claim_is_answered_when_a_call_is_made(api: Api) -> None:
    _, puppet = await offered(api)
    parked = asyncio.create_task(claim(api, wait="60s"))
    await puppet.call_tool("echo", {})
    (task,) = await asyncio.wait_for(parked, 10)
    assert task["tool"] == "echo"


async def test_claims_are_filtered(api: Api) -> None:
    await offered(api, "a", "b")
    await offered(api, "a", namespace="other")
    assert await claim(api, toolset="another") == []
    assert await claim(api, tools=["c"]) == []
    assert await claim(api, tools=[]) == []
    assert [task["tool"] for task in await claim(api, tools=["b"])] == ["b"]
    assert [task["namespace"] for task in await claim(api, namespace="other")] == ["other"]
    assert [task["namespace"] for task in await claim(api, toolset="support")] == ["acme"]


async def test_a_token_claims_in_its_namespace_only(api: Api) -> None:
    await offered(api, "a")
    await offered(api, "a", namespace="other")
    secret = await api.token("other", ["tasks:work"])
    (task,) = (await post(api, "claim", {"max": 10}, secret)).json()["tasks"]
    assert task["namespace"] == "other"
    assert (await post(api, "claim", {"max": 1, "namespace": "acme"}, secret)).status_code == 404


async def test_a_mapped_name_is_claimed_by_the_name_its_owner_knows(api: Api) -> None:
    await api.toolset("support", "a-b", "a_b")
    run = (await api.start(toolset="support"))["id"]
    puppet = await api.puppet(run)
    await puppet.call_tool("a_b_2", {})
    await puppet.call_tool("a_b", {})
    assert [task["tool"] for task in await claim(api, tools=["a_b"])] == ["a_b"]
    assert [task["tool"] for task in await claim(api, tools=["a-b"])] == ["a-b"]


async def test_the_same_claim_again_has_the_same_tasks(api: Api) -> None:
    await offered(api, "a", "a", "a")
    claim_id = str(uuid4())
    first = await claim(api, claim_id=claim_id, max=2)
    again = await claim(api, claim_id=claim_id.upper(), max=2)
    assert again == first and len(first) == 2
    assert len(await claim(api, claim_id=str(uuid4()))) == 1
    for task in first:
        await settle(api, "complete", {"token": task["token"], "result": 1})
    assert await claim(api, claim_id=claim_id) == []


async def test_a_client_that_went_away_gets_no_lease(api: Api) -> None:
    _, puppet = await offered(api)
    claims = api.services.tasks.claims
    from app.tasks.schemas import ClaimBody
    from tenancy.principals import KEY_SCOPES, Principal

    principal = Principal("key", "k", api.organization, frozenset(KEY_SCOPES))
    body = ClaimBody(max=1, wait=60_000)
    wanted = await claims.wanted(principal, body, None)
    gone = asyncio.Event()

    async def is_gone() -> bool:
        return gone.is_set()

    parked = asyncio.create_task(claims.claim(wanted, body, is_gone))
    gone.set()
    await puppet.call_tool("echo", {})
    assert await asyncio.wait_for(parked, 10) == []
    (task,) = await claim(api)
    assert task["attempt"] == 1


# -- Outcomes


async def test_a_result_is_recorded_once(api: Api) -> None:
    run, _ = await offered(api, "a")
    (task,) = await claim(api)
    item = {"token": task["token"], "result": {"b": 1, "a": [1.0]}}
    assert await settle(api, "complete", item) == [{"token": task["token"], "ok": True}]
    assert (await settle(api, "complete", item))[0]["ok"]
    other = (await settle(api, "complete", {**item, "result": 2}))[0]
    assert (other["ok"], other["code"]) == (False, "task_settled")
    failed = (await settle(api, "fail", {"token": task["token"], "error": {"message": "x"}}))[0]
    assert failed["code"] == "task_settled"
    (entry,) = await outcome(api, run)
    assert entry["result"]["value"] == {"a": [1], "b": 1}
    assert (entry["call"], entry["attempts"]) == (1, 1)
    assert entry["begun_at"] <= entry["time"]


async def test_another_api_can_settle_and_repeat(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    run, puppet = await offered(api, "a", output_schema={"type": "integer"})
    (task,) = await claim(api)
    fresh = Leases(api.store, api.services.tasks._repository, api.services.toolsets)
    monkeypatch.setattr(api.services.tasks, "_leases", fresh)
    item = {"token": task["token"], "result": "no integer"}
    assert (await settle(api, "complete", item))[0]["ok"]
    assert (await settle(api, "complete", item))[0]["ok"]
    (entry,) = await outcome(api, run)
    assert entry["error"]["code"] == "invalid_result" and entry["begun_at"]
    await puppet.complete(None, delivered=entry["seq"])
    assert (await settle(api, "complete", item))[0]["ok"]


async def test_a_failure_is_recorded_as_the_script_will_see_it(api: Api) -> None:
    run, _ = await offered(api, "a", "a")
    tasks = await claim(api)
    errors = [
        {"message": "no"},
        {"message": "x" * 10_000, "code": "mine", "data": {"k": 1}, "retryable": True},
    ]
    results = await settle(
        api,
        "fail",
        *({"token": task["token"], "error": error} for task, error in zip(tasks, errors, strict=True)),
    )
    assert [result["ok"] for result in results] == [True, True]
    first, second = sorted(await outcome(api, run), key=lambda entry: entry["call"])
    assert first["error"] == {
        "name": "ToolError", "code": "tool_failed", "message": "no", "data": None, "retryable": False,
    }  # fmt: skip
    assert (second["error"]["code"], second["error"]["retryable"]) == ("mine", True)
    assert second["error"]["data"]["value"] == {"k": 1}
    assert len(second["error"]["message"].encode()) <= 8_192
    assert second["error"]["truncated"] is True
    assert (await settle(api, "fail", {"token": tasks[0]["token"], "error": errors[0]}))[0]["ok"]


async def test_a_result_that_does_not_match_the_schema(api: Api) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    run, _ = await offered(api, "a", "a", output_schema=schema)
    one, two = await claim(api)
    results = await settle(
        api,
        "complete",
        {"token": one["token"], "result": {"n": 1}},
        {"token": two["token"], "result": {"n": "1"}},
    )
    assert [result["ok"] for result in results] == [True, True]
    entries = {entry["call"]: entry for entry in await outcome(api, run)}
    assert entries[1]["result"]["value"] == {"n": 1}
    error = entries[2]["error"]
    assert (error["name"], error["code"]) == ("ToolError", "invalid_result")
    assert "n:" in error["message"] and "integer" in error["message"]


async def test_items_are_judged_one_by_one(api: Api) -> None:
    run, _ = await offered(api, "a", "a")
    one, two = await claim(api)
    big = "x" * (16 * 1024 * 1024)
    results = await settle(
        api,
        "complete",
        {"token": "nonsense", "result": 1},
        {"token": one["token"], "result": big},
        {"token": two["token"], "result": 1},
        {"token": two["token"], "result": 1},
    )
    assert [result.get("code") for result in results] == ["unknown_token", "too_large", None, None]
    assert [result["token"] for result in results] == ["nonsense", one["token"], two["token"], two["token"]]
    entries = {entry["call"]: entry for entry in await outcome(api, run)}
    assert entries[1]["error"]["code"] == "too_large"


async def test_a_big_result_is_kept_apart(api: Api) -> None:
    run, puppet = await offered(api, "a")
    (task,) = await claim(api)
    assert (await settle(api, "complete", {"token": task["token"], "result": "x" * 100_000}))[0]["ok"]
    (entry,) = await outcome(api, run)
    assert set(entry["result"]) == {"bytes", "sha256"}
    await puppet.call_tool("a", {"back": "x"}, delivered=entry["seq"])
    assert len(await claim(api)) == 1


async def test_bad_values_refuse_the_whole_body(api: Api) -> None:
    run, _ = await offered(api, "a")
    (task,) = await claim(api)
    deep: Any = 1
    for _ in range(201):
        deep = [deep]
    answer = await post(api, "complete", {"items": [{"token": task["token"], "result": deep}]})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"].startswith("items[0].result[0]")
    raw = '{"items": [{"token": "%s", "result": {"a": "\\ud800"}}]}' % task["token"]  # noqa: UP031
    answer = await api.call(
        "POST", "/v1/tasks/complete", content=raw, headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (400, "items[0].result.a")
    assert await outcome(api, run) == []


@pytest.mark.parametrize(
    ("verb", "body", "path"),
    [
        ("claim", {}, "max"),
        ("claim", {"max": 0}, "max"),
        ("claim", {"max": 101}, "max"),
        ("claim", {"max": 1.5}, "max"),
        ("claim", {"max": 1, "wait": "61s"}, "wait"),
        ("claim", {"max": 1, "claim_id": "x"}, "claim_id"),
        ("claim", {"max": 1, "tools": "all"}, "tools"),
        ("claim", {"max": 1, "tools": ["a\0"]}, "tools[0]"),
        ("claim", {"max": 1, "linger_ms": 1}, "linger_ms"),
        ("claim", {"max": 1, "toolset": "no\0"}, "toolset"),
        ("complete", {}, "items"),
        ("complete", {"items": [{"token": "t"}]}, "items[0].result"),
        ("complete", {"items": [{"result": 1}]}, "items[0].token"),
        ("complete", {"items": [{"token": 1, "result": 1}]}, "items[0].token"),
        ("complete", {"items": [{"token": "t", "result": 1}] * 101}, "items"),
        ("complete", {"items": [], "claim": {"max": 1, "more": 1}}, "claim.more"),
        ("fail", {"items": [{"token": "t", "error": "x"}]}, "items[0].error"),
        ("fail", {"items": [{"token": "t", "error": {}}]}, "items[0].error.message"),
        ("release", {"items": [{"token": "t", "after": -1}]}, "items[0].after"),
        ("defer", {"items": [{"token": "t", "expires": "x"}]}, "items[0].expires"),
    ],
)
async def test_bodies_that_are_wrong(api: Api, verb: str, body: Json, path: str) -> None:
    answer = await post(api, verb, body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert path in [error["path"] for error in answer.json()["errors"]], answer.text


# -- Settling and claiming in one exchange


async def test_settle_and_claim(api: Api) -> None:
    run, puppet = await offered(api, "a")
    (task,) = await claim(api)
    body = {
        "items": [{"token": task["token"], "result": 1}],
        "claim": {"max": 5, "wait": "60s", "linger_ms": 5},
    }
    exchange = asyncio.create_task(post(api, "complete", body))
    while not await outcome(api, run):
        await turn()
    await puppet.call_tool("a", {"next": True}, delivered=2)
    answer = (await asyncio.wait_for(exchange, 10)).json()
    assert answer["results"] == [{"token": task["token"], "ok": True}]
    (following,) = answer["tasks"]
    assert (following["call"], following["args"]) == (2, {"next": True})


async def test_settling_without_claim_has_no_tasks(api: Api) -> None:
    assert (await post(api, "heartbeat", {"items": []})).json() == {"results": []}
    answer = (await post(api, "heartbeat", {"items": [], "claim": {"max": 1}})).json()
    assert answer == {"results": [], "tasks": []}


async def test_a_token_is_no_credential(api: Api) -> None:
    run, _ = await offered(api, "a")
    (task,) = await claim(api)
    item = {"token": task["token"], "result": "stolen"}
    for secret in (await api.other_organization(), await api.token("other", ["tasks:work"])):
        (result,) = await settle(api, "complete", item, secret=secret)
        assert result["code"] == "unknown_token"
    assert await outcome(api, run) == []
    mine = await api.token("acme", ["tasks:work"])
    assert (await settle(api, "complete", item, secret=mine))[0]["ok"]


async def test_arguments_are_checked_before_anyone_sees_them(api: Api) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run, _ = await offered(api, "a", input_schema=schema)
    assert len(await claim(api)) == 1
    puppet = api.puppets[-1]
    await puppet.call_tool("a", {"n": "one"})
    assert await claim(api) == []
    (entry,) = await outcome(api, run)
    assert (entry["call"], entry["error"]["code"]) == (2, "invalid_arguments")
    assert "n:" in entry["error"]["message"]


async def test_a_claim_that_waits_goes_on_waiting_after_refused_arguments(api: Api) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    run, puppet = await offered(api, "a", input_schema=schema)
    assert len(await claim(api)) == 1
    await puppet.call_tool("a", {"n": "one"})
    parked = asyncio.create_task(claim(api, wait="60s"))
    while not await outcome(api, run):
        await turn()
    await puppet.call_tool("a", {"n": 3})
    (task,) = await asyncio.wait_for(parked, 10)
    assert (task["call"], task["args"]) == (3, {"n": 3})
