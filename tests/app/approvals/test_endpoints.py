"""Calls that wait for a person: as the API shows them, and decided over it."""

import asyncio
from typing import Any

import orjson
import pytest

from app.scheduler.loop import fire_due
from sandbox.journal.entries import Actor
from sandbox.store.postgres.connection import acquired
from tests.fixtures.api import Api, Puppet
from tests.fixtures.database import Clock
from tests.fixtures.tasks import claim, outcome, settle

Json = dict[str, Any]


async def waiting(api: Api, namespace: str = "acme", args: Any = None, **draft: Any) -> tuple[str, Puppet]:
    """A run whose one call, of `pay`, waits for an approval."""
    await api.toolset("support", "pay", approval=True)
    run = (await api.start(namespace, toolset="support", labels={"team": "ops"}))["id"]
    puppet = await api.puppet(run)
    await puppet.call_tool("pay", {"cents": 5} if args is None else args, gated=True, **draft)
    return run, puppet


async def decide(api: Api, run: str, call: int = 1, *, secret: str | None = None, **body: Any) -> Any:
    return await api.call("POST", f"/v1/runs/{run}/approvals/{call}", json=body, secret=secret)


async def listed(api: Api, query: str = "", secret: str | None = None) -> list[Json]:
    answer = await api.call("GET", f"/v1/approvals{query}", secret=secret)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])


async def journal(api: Api, run: str) -> list[Json]:
    answer = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return list(answer.json()["data"])


async def test_an_approval_is_shown_with_what_a_decision_needs(api: Api) -> None:
    run, puppet = await waiting(api)
    await puppet.call_tool("pay", {"cents": 7}, gated=True, expires_ms=60_000)
    [second, first] = await listed(api, "?namespace=acme")
    record = (await api.call("GET", f"/v1/runs/{run}?namespace=acme")).json()
    assert first == {
        "run": run,
        "namespace": "acme",
        "call": 1,
        "tool": "pay",
        "args": {"cents": 5},
        "args_bytes": 11,
        "args_sha256": first["args_sha256"],
        "args_truncated": False,
        "args_preview": None,
        "line": None,
        "column": None,
        "frame": None,
        "script": record["script"],
        "labels": {"team": "ops"},
        "requested_at": record["waiting_for"][0]["since"],
        "expires_at": record["deadline"],
        "status": "pending",
        "decided_at": None,
        "reason": None,
        "by": None,
        "actor": None,
        "story": None,
    }
    assert (second["call"], second["args"]) == (2, {"cents": 7})
    assert second["requested_at"] < second["expires_at"] < record["deadline"]
    assert [item["kind"] for item in record["waiting_for"]] == ["approval", "approval"]
    assert record["waiting_for"][1]["until"] == second["expires_at"]
    got = (await api.call("GET", f"/v1/runs/{run}/approvals/2?namespace=acme")).json()
    told = {"call": 1, "tool": "pay", "line": None, "status": "pending", "args": '{"cents":5}'}
    assert got == {**second, "story": [told]}
    assert (await api.call("GET", f"/v1/runs/{run}/approvals?namespace=acme")).json()["data"][0] == got


async def test_an_approved_call_is_offered_and_the_decision_is_in_the_journal(api: Api) -> None:
    run, _ = await waiting(api)
    assert await claim(api) == []
    parked = asyncio.create_task(claim(api, wait="10s"))
    answer = await decide(api, run, decision="approved", by="ann", reason="fine")
    assert answer.status_code == 200, answer.text
    view = answer.json()
    assert (view["status"], view["by"], view["reason"]) == ("approved", "ann", "fine")
    assert (view["actor"]["kind"], view["story"]) == ("key", [])
    [task] = await parked
    assert task["tool"] == "pay"
    decided = (await journal(api, run))[-1]
    assert (decided["type"], decided["decision"], decided["by"]) == ("approval_decided", "approved", "ann")
    assert decided["actor"] == view["actor"]
    [settled] = await settle(api, "complete", {"token": task["token"], "result": {"paid": True}})
    assert settled["ok"]


async def test_a_denied_call_is_completed_in_the_same_append(api: Api) -> None:
    run, _ = await waiting(api)
    view = (await decide(api, run, decision="denied", by="ann", reason="too much")).json()
    assert (view["status"], view["reason"]) == ("denied", "too much")
    decided, completed = (await journal(api, run))[-2:]
    assert (decided["type"], decided["decision"]) == ("approval_decided", "denied")
    assert completed["seq"] == decided["seq"] + 1
    error = completed["error"]
    assert (error["name"], completed["attempts"]) == ("ApprovalDeniedError", 0)
    assert error["message"] == "the call of pay was denied by ann: too much"
    assert error["data"]["value"] == {"reason": "too much", "by": "ann", "expired": False}
    assert await claim(api) == []


async def test_an_approval_expires(own_api: Api, clock: Clock) -> None:
    api = own_api
    run, _ = await waiting(api, expires_ms=60_000)
    clock.advance(59_000)
    await fire_due(api.store)
    assert [item["status"] for item in await listed(api)] == ["pending"]
    clock.advance(1_000)
    await fire_due(api.store)
    [view] = await listed(api, "?status=expired")
    assert (view["status"], view["by"], view["actor"]) == ("expired", None, None)
    [completed] = await outcome(api, run)
    assert completed["error"]["data"]["value"] == {"reason": None, "by": None, "expired": True}
    assert (await decide(api, run, decision="approved")).json()["code"] == "approval_settled"


async def test_a_call_is_decided_once(api: Api) -> None:
    run, puppet = await waiting(api)
    answers = await asyncio.gather(
        *(decide(api, run, decision=word) for word in ("approved", "denied", "approved", "denied"))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    codes = {answer.json()["code"] for answer in answers if answer.status_code == 409}
    assert codes == {"approval_settled"}
    [winner] = [answer.json() for answer in answers if answer.status_code == 200]
    assert [item["status"] for item in await listed(api)] == [winner["status"]]
    entries = await journal(api, run)
    assert [entry["type"] for entry in entries].count("approval_decided") == 1
    if winner["status"] == "approved":
        [task] = await claim(api)
        await settle(api, "complete", {"token": task["token"], "result": 1})
    await puppet.complete("ok", delivered=len(await journal(api, run)) - 1)
    after = await decide(api, run, decision="denied")
    assert (after.status_code, after.json()["code"]) == (409, "approval_settled")


async def test_a_call_that_was_withdrawn_is_decided_no_more(api: Api) -> None:
    run, puppet = await waiting(api)
    await api.call("POST", f"/v1/runs/{run}/cancel?namespace=acme", json={})
    cancelling = await decide(api, run, decision="approved")
    assert (cancelling.status_code, cancelling.json()["code"]) == (409, "approval_settled")
    assert "cancelled" in cancelling.json()["detail"]
    await puppet.withdraw()
    gone = await decide(api, run, decision="denied")
    assert (gone.status_code, gone.json()["code"]) == (409, "approval_settled")
    await puppet.cancelled("user", delivered=2)
    ended = await decide(api, run, decision="approved")
    assert (ended.status_code, ended.json()["code"]) == (409, "run_ended")
    [view] = await listed(api)
    assert (view["status"], view["reason"]) == ("expired", "the call was withdrawn before anybody decided")


async def test_a_quarantined_run_takes_decisions(api: Api) -> None:
    run, _ = await waiting(api)
    await api.services.quarantine.quarantine(run, "a drill", by=Actor("operator", "ann"))
    assert (await decide(api, run, decision="denied")).json()["status"] == "denied"
    assert [entry["error"]["name"] for entry in await outcome(api, run)] == ["ApprovalDeniedError"]


async def test_lists_are_filtered_and_paged(api: Api) -> None:
    first, _ = await waiting(api)
    second, puppet = await waiting(api, "beta")
    await puppet.call_tool("refund", {}, gated=True)
    await decide(api, first, decision="approved")

    async def found(query: str) -> list[tuple[str, int]]:
        return [(item["run"], item["call"]) for item in await listed(api, query)]

    every = [(second, 2), (second, 1), (first, 1)]
    assert await found("") == every
    for query, expected in {
        "?status=pending": every[:2],
        "?status=approved": every[2:],
        "?status=denied": [],
        "?namespace=beta": every[:2],
        f"?run={first}": every[2:],
        "?tool=refund": every[:1],
        "?label.team=ops": every,
        "?label.team=other": [],
    }.items():
        assert await found(query) == expected, query
    page, seen = "?limit=1", []
    while True:
        answer = (await api.call("GET", f"/v1/approvals{page}")).json()
        seen += [(item["run"], item["call"]) for item in answer["data"]]
        if answer["next"] is None:
            break
        page = f"?limit=1&after={answer['next']}"
    assert seen == every
    for query in ("?after=x", "?status=withdrawn", "?run=7", "?limit=0", "?after=MSAyIDM"):
        assert (await api.call("GET", f"/v1/approvals{query}")).status_code == 400, query


async def test_big_arguments_are_shown_by_their_head(api: Api) -> None:
    text = orjson.dumps({"note": "x" * 70_000})
    run, puppet = await waiting(api)
    taken = await api.services.runs.values.store((await puppet.facts()).namespace, text)
    await puppet.call_tool("pay", taken, gated=True)
    view = (await listed(api))[0]
    assert (view["args"], view["args_truncated"], view["args_bytes"]) == (None, True, len(text))
    assert view["args_preview"] == text[:4096].decode()
    whole = await api.call("GET", f"/v1/runs/{run}/values/{view['args_sha256']}?namespace=acme")
    assert whole.content == text
    story = (await decide(api, run, decision="denied")).json()["story"]
    assert story == []


async def test_many_are_decided_at_once_each_answered_by_itself(api: Api) -> None:
    run, puppet = await waiting(api)
    await puppet.call_tool("pay", {}, gated=True)
    other, _ = await waiting(api, "beta")
    items = [
        {"run": run, "call": 1, "decision": "approved"},
        {"run": run, "call": 1, "decision": "approved"},
        {"run": run, "call": 9, "decision": "denied"},
        {"run": other, "call": 1, "decision": "denied", "reason": "no", "namespace": "beta"},
        {"run": run, "call": 2, "decision": "denied", "namespace": "beta"},
    ]
    answer = await api.call("POST", "/v1/approvals/decide", json={"items": items})
    results = answer.json()["results"]
    assert [(result["run"], result["call"]) for result in results] == [(i["run"], i["call"]) for i in items]
    assert sorted((result["ok"], result.get("code")) for result in results[:2]) == [
        (False, "approval_settled"),
        (True, None),
    ]
    assert [result.get("code") for result in results[2:]] == ["not_found", None, "not_found"]
    assert results[3]["approval"]["status"] == "denied"
    for bad in ([], [{"run": run, "call": 1}], [{**items[0], "decision": "expired"}], [items[0]] * 101):
        refused = await api.call("POST", "/v1/approvals/decide", json={"items": bad})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")


async def test_a_token_decides_only_what_it_is_for(api: Api) -> None:
    run, _ = await waiting(api)
    other, _ = await waiting(api)
    agent = await api.token("acme")
    assert (await decide(api, run, secret=agent, decision="approved")).status_code == 403
    assert {item["run"] for item in await listed(api, secret=agent)} == {run, other}
    one = await api.token("acme", ["runs:read", "approvals:write"], narrow={"run": run})
    assert [item["run"] for item in await listed(api, secret=one)] == [run]
    assert await listed(api, f"?run={other}", secret=one) == []
    assert (await decide(api, other, secret=one, decision="approved")).status_code == 404
    elsewhere = await api.token("acme", ["approvals:write"], narrow={"toolset": "other"})
    assert (await decide(api, run, secret=elsewhere, decision="approved")).status_code == 403
    assert (await decide(api, run, secret=one, decision="approved")).json()["actor"]["kind"] == "token"


@pytest.mark.parametrize(
    "body",
    [{}, {"decision": "maybe"}, {"decision": "approved", "reason": "x" * 2_001},
     {"decision": "approved", "by": "\0"}, {"decision": "approved", "extra": 1}],
)  # fmt: skip
async def test_a_bad_decision_changes_nothing(api: Api, body: Json) -> None:
    run, _ = await waiting(api)
    answer = await decide(api, run, **body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert [item["status"] for item in await listed(api)] == ["pending"]


async def test_a_suspended_namespace_decides_nothing(api: Api) -> None:
    run, _ = await waiting(api)
    async with acquired(api.store.pool) as connection:
        await connection.execute("update namespaces set suspended_at = now_ms() where name = 'acme'")
    api.services.tenancy._namespaces.clear()
    answer = await decide(api, run, decision="approved")
    assert (answer.status_code, answer.json()["code"]) == (403, "namespace_suspended")


async def test_an_erased_namespace_has_no_approvals(api: Api) -> None:
    _, puppet = await waiting(api)
    await waiting(api, "beta")
    await api.store.erase_namespace((await puppet.facts()).namespace)
    assert [item["namespace"] for item in await listed(api)] == ["beta"]


async def test_a_webhook_tells_of_each_request(api: Api) -> None:
    run, _ = await waiting(api)
    await api.services.hooks.projector.project_recorded()
    told = (await api.call("GET", "/v1/events?type=approval.requested")).json()["data"]
    assert [message["type"] for message in told] == ["approval.requested"]
    [message] = told
    assert message["sequence"] == 1
    got = (await api.call("GET", f"/v1/runs/{run}/approvals/1?namespace=acme")).json()
    assert message["data"]["approval"] == got
    assert message["data"]["run"]["waiting_for"][0]["kind"] == "approval"
