"""Quarantined runs: put there by an operator, released, abandoned with their calls settled; all of it audited."""

import asyncio
import json
from typing import Any

import pytest

from app.errors import RunEnded, RunQuarantined
from app.scheduler.loop import fire_due
from sandbox.journal.entries import Actor
from sandbox.store.postgres.connection import acquired
from tenancy.errors import NotFound
from tests.fixtures.api import Api, Puppet
from tests.fixtures.database import Clock

OPERATOR = Actor("operator", "ann")


async def stopped(api: Api) -> tuple[dict[str, Any], Puppet]:
    """A run with one begun call and one that nobody has claimed, in quarantine."""
    await api.toolset("support", "echo")
    run = await api.start(toolset="support")
    puppet = await api.puppet(run["id"])
    await puppet.call_tool("echo", {"x": 1})
    claimed = await api.call("POST", "/v1/tasks/claim", json={"max": 1})
    assert len(claimed.json()["tasks"]) == 1
    await puppet.call_tool("echo", {"x": 2})
    await api.services.quarantine.quarantine(run["id"], "a drill", by=OPERATOR)
    return run, puppet


async def post(api: Api, run: str, verb: str, **body: Any) -> Any:
    return await api.call("POST", f"/v1/runs/{run}/{verb}?namespace=acme", json=body or {"reason": "because"})


async def entries(api: Api, run: str) -> list[dict[str, Any]]:
    answer = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return list(answer.json()["data"])


async def audited(api: Api, run: str) -> list[tuple[str, str, str | None]]:
    async with acquired(api.store.pool) as connection:
        rows = await connection.fetch(
            "select action, actor_kind, after from audit_log where target = $1 order by id", f"run:{run}"
        )
    return [(row["action"], row["actor_kind"], json.loads(row["after"])["reason"]) for row in rows]


async def test_a_released_run_goes_on_and_its_deadline_counts_again(own_api: Api) -> None:
    run, puppet = await stopped(own_api)
    shown = (await own_api.call("GET", f"/v1/runs/{run['id']}?namespace=acme")).json()
    assert (shown["status"], shown["reason"]) == ("quarantined", "a drill")
    with pytest.raises(AssertionError):  # its former owner may not append
        await puppet.append_log("late")
    released = await post(own_api, run["id"], "release", reason="fixed")
    assert (released.status_code, released.json()["status"]) == (200, "active")
    assert await audited(own_api, run["id"]) == [
        ("run.quarantine", "operator", "a drill"),
        ("run.release", "key", "fixed"),
    ]
    async with acquired(own_api.store.pool) as connection:
        due = await connection.fetchval(
            "select due = (select deadline from run_facts f where f.run_id = p.run_id) from pending p"
            " where run_id = $1 and kind = 4",
            run["id"],
        )
    assert due is True
    again = await post(own_api, run["id"], "release")
    assert (again.status_code, again.json()["code"]) == (409, "run_active")


async def test_an_abandoned_run_ends_when_its_calls_are_settled(own_api: Api, clock: Clock) -> None:
    run, _ = await stopped(own_api)
    abandoned = await post(own_api, run["id"], "abandon", reason="hopeless")
    assert (abandoned.status_code, abandoned.json()["status"]) == (200, "quarantined")
    path = f"/v1/runs/{run['id']}?namespace=acme"
    waiting = asyncio.create_task(own_api.call("GET", f"{path}&wait=30s"))
    await fire_due(own_api.store)
    assert [entry["type"] for entry in await entries(own_api, run["id"])][3:] == ["tool_call_completed"]
    refused = await post(own_api, run["id"], "release")
    assert (refused.status_code, refused.json()["code"]) == (409, "run_quarantined")
    clock.advance(31_000)
    await fire_due(own_api.store)
    clock.advance(1_000)
    await fire_due(own_api.store)
    withdrawn, unknown, end = (await entries(own_api, run["id"]))[3:]
    assert (withdrawn["call"], withdrawn["attempts"], withdrawn["error"]["name"]) == (2, 0, "CancelledError")
    assert (unknown["call"], unknown["attempts"], unknown["error"]["name"]) == (1, 1, "OutcomeUnknownError")
    assert (end["type"], end["limit"]) == ("run_aborted", "abandoned")
    for answer in (await waiting, await own_api.call("GET", path)):
        ended = answer.json()
        assert (ended["status"], ended["error"]["limit"]) == ("aborted", "abandoned")
    assert [act for act, *_ in await audited(own_api, run["id"])] == ["run.quarantine", "run.abandon"]
    for verb in ("release", "abandon"):
        late = await post(own_api, run["id"], verb)
        assert (late.status_code, late.json()["code"]) == (409, "run_ended")


async def test_only_an_active_run_is_quarantined(own_api: Api) -> None:
    run, _ = await stopped(own_api)
    with pytest.raises(RunQuarantined):
        await own_api.services.quarantine.quarantine(run["id"], "again", by=OPERATOR)
    with pytest.raises(NotFound):
        await own_api.services.quarantine.quarantine("no-run", "x", by=OPERATOR)
    other = await own_api.start()
    puppet = await own_api.puppet(other["id"])
    await puppet.complete(1)
    with pytest.raises(RunEnded):
        await own_api.services.quarantine.quarantine(other["id"], "late", by=OPERATOR)


async def test_deciding_needs_a_reason_and_the_scope(own_api: Api) -> None:
    run, _ = await stopped(own_api)
    empty = await post(own_api, run["id"], "release", reason="")
    assert (empty.status_code, empty.json()["errors"][0]["path"]) == (400, "reason")
    token = await own_api.token("acme")
    for verb in ("release", "abandon"):
        path = f"/v1/runs/{run['id']}/{verb}"
        answer = await own_api.call("POST", path, json={"reason": "x"}, secret=token)
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")


async def test_signals_are_recorded_and_the_deadline_waits_in_quarantine(own_api: Api, clock: Clock) -> None:
    run, _ = await stopped(own_api)
    sent = await own_api.call(
        "POST", f"/v1/runs/{run['id']}/signals?namespace=acme", json={"name": "go", "id": "s1"}
    )
    assert sent.status_code == 202
    clock.advance(31 * 86_400_000)
    await fire_due(own_api.store)
    types = [entry["type"] for entry in await entries(own_api, run["id"])]
    assert "signal_received" in types
    assert "cancel_requested" not in types
