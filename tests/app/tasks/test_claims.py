"""Claims that meet: one asked again, one that another tenant named alike, one that is given a lease too late."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest

from app.tasks import claims as claims_module
from app.tasks.schemas import ClaimBody
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import EntryType, ScheduleToolCall, ToolPolicy
from sandbox.journal.ids import Seq, TimeMs
from sandbox.store.blobs import BlobStore
from sandbox.store.hints import Message
from sandbox.store.interface import LEASE_MS, CommandDraft, TaskFilter
from sandbox.store.leases import leased_message
from sandbox.store.postgres.reach import NOTHING, reaching
from sandbox.store.postgres.tasks import key_of
from tenancy.principals import KEY_SCOPES, Principal
from tests.fixtures.api import Api, Puppet, running_api
from tests.fixtures.tasks import Json, claim, offered, post, settle
from tests.fixtures.turns import until


async def leased(puppet: Puppet, api: Api, claim_id: str) -> None:
    """What a worker does that still takes the claim for parked: the append leases the call to it."""
    await puppet.call_tool("a", {}, claim_id=str(uuid5(UUID(api.organization), claim_id)))


async def test_a_claim_id_belongs_to_its_organization_and_namespace(api: Api) -> None:
    await offered(api, "a")
    claim_id = str(uuid4())
    assert len(await claim(api, claim_id=claim_id)) == 1
    for secret in (await api.other_organization(), await api.token("other", ["tasks:work"])):
        answer = await post(api, "claim", {"max": 1, "claim_id": claim_id}, secret)
        assert answer.json() == {"tasks": []}
    assert len(await claim(api, claim_id=claim_id)) == 1


async def test_a_parked_claim_that_is_asked_again_is_answered_there(api: Api) -> None:
    _, puppet = await offered(api)
    claim_id = str(uuid4())
    parked = api.services.tasks.claims._wakeups._parked
    first = asyncio.create_task(claim(api, claim_id=claim_id, wait="60s"))
    await until(lambda: len(parked) == 1)
    [former] = parked.values()
    second = asyncio.create_task(claim(api, claim_id=claim_id, wait="60s"))
    await until(lambda: list(parked.values()) != [former])
    assert await asyncio.wait_for(first, 10) == []
    await puppet.call_tool("echo", {})
    (task,) = await asyncio.wait_for(second, 10)
    assert parked == {}
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat["ok"], "the first request gave the task back"


async def test_a_hint_that_comes_late_takes_nothing_from_a_claim_that_found_its_lease_itself(
    api: Api,
) -> None:
    _, puppet = await offered(api)
    claim_id = str(uuid4())
    assert await claim(api, claim_id=claim_id) == []
    await leased(puppet, api, claim_id)
    found = await hints_of(puppet, api, str(uuid5(UUID(api.organization), claim_id)))
    (task,) = await claim(api, claim_id=claim_id)
    tell(api, found)
    assert await claim(api) == []
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat["ok"]


async def test_a_claim_whose_client_left_may_be_answered_at_another_api(
    api: Api, shared_database_url: str, blobs: BlobStore, tmp_path: Path
) -> None:
    _, puppet = await offered(api)
    claims = api.services.tasks.claims
    principal = Principal("key", "k", api.organization, frozenset(KEY_SCOPES))
    body = ClaimBody(max=1, wait=60_000, claim_id=str(uuid4()))
    gone = asyncio.Event()

    async def is_gone() -> bool:
        return gone.is_set()

    wanted = await claims.wanted(principal, body, None)
    dropped = asyncio.create_task(claims.claim(wanted, body, is_gone))
    await until(lambda: len(claims._wakeups._parked) == 1)
    gone.set()
    await leased(puppet, api, str(body.claim_id))
    async with running_api(shared_database_url, blobs, tmp_path / "h2") as other:
        asked = {"max": 1, "claim_id": body.claim_id}
        answer = await other.call("POST", "/v1/tasks/claim", secret=api.key, json=asked)
        (task,) = answer.json()["tasks"]
        assert await asyncio.wait_for(dropped, 10) == []
        beat = {"items": [{"token": task["token"]}]}
        answer = await other.call("POST", "/v1/tasks/heartbeat", secret=api.key, json=beat)
    assert answer.json()["results"][0]["ok"], "the first api gave back what the second had handed out"


async def test_a_claim_whose_answer_was_lost_is_asked_again_at_another_api(
    api: Api, shared_database_url: str, blobs: BlobStore, tmp_path: Path
) -> None:
    """What the second api leases to it is in its hands; the first, which had nothing for it, leaves it alone."""
    _, puppet = await offered(api)
    claim_id = str(uuid4())
    assert await claim(api, claim_id=claim_id) == []
    await puppet.call_tool("echo", {})
    async with running_api(shared_database_url, blobs, tmp_path / "h2") as other:
        asked = {"max": 1, "claim_id": claim_id}
        answer = await other.call("POST", "/v1/tasks/claim", secret=api.key, json=asked)
        (task,) = answer.json()["tasks"]
        beat = {"items": [{"token": task["token"]}]}
        answer = await other.call("POST", "/v1/tasks/heartbeat", secret=api.key, json=beat)
    assert answer.json()["results"][0]["ok"], "the first api gave back what the second had handed out"


async def test_a_lease_that_was_handed_out_again_meanwhile_is_not_given_back(api: Api) -> None:
    await offered(api, "a")
    claim_id, wanted = str(uuid4()), TaskFilter(api.organization)
    (task,) = await api.store.claim_tasks(wanted, claim_id, 1, LEASE_MS)
    (again,) = await api.store.claim_tasks(wanted, claim_id, 1, LEASE_MS + 1)
    await api.store.give_back_tasks([(key_of(task), task.lease_until)])
    assert (await api.store.heartbeat_tasks([key_of(task)], LEASE_MS + 2))[0][0] is not None
    await api.store.give_back_tasks([(key_of(again), TimeMs(again.lease_until + 1))])
    assert await api.store.claim_tasks(wanted, str(uuid4()), 1, LEASE_MS) == []


async def test_a_parked_claim_gets_nothing_when_its_token_is_revoked(api: Api) -> None:
    """Not even what a worker leased to it in its append: that is offered to others at once, as not begun."""
    _, puppet = await offered(api)
    wanted = {"namespace": "acme", "scopes": ["tasks:work"]}
    made = (await api.call("POST", "/v1/tokens", json=wanted)).json()
    parked = api.services.tasks.claims._wakeups._parked
    claim_id = str(uuid4())
    body = {"max": 1, "wait": "60s", "claim_id": claim_id}
    waiting = asyncio.create_task(post(api, "claim", body, made["token"]))
    await until(lambda: len(parked) == 1)
    assert (await api.call("DELETE", f"/v1/tokens/{made['id']}")).status_code == 204
    await puppet.call_tool("echo", {})
    answer = await asyncio.wait_for(waiting, 10)
    assert (answer.status_code, answer.json()) == (200, {"tasks": []})
    assert (await post(api, "claim", body, made["token"])).status_code == 401
    (task,) = await claim(api)
    assert (task["tool"], task["attempt"]) == ("echo", 1)


async def test_a_claim_with_a_lease_gets_what_waits_beside_it(api: Api) -> None:
    """Its lease first, then new calls until it holds its `max`, whether it is asked once or again."""
    _, puppet = await offered(api, "b", "b")
    claim_id = str(uuid4())
    await leased(puppet, api, claim_id)
    first = await claim(api, claim_id=claim_id, max=2)
    assert [task["tool"] for task in first] == ["a", "b"]
    again = await claim(api, claim_id=claim_id, max=2)
    assert {task["token"] for task in again} == {task["token"] for task in first}
    more = await claim(api, claim_id=claim_id, max=10)
    assert [task["token"] for task in more[:2]] == [task["token"] for task in again]
    assert [task["tool"] for task in more[2:]] == ["b"]


async def parked_claim(api: Api, claim_id: str, **fields: Any) -> tuple[asyncio.Task[list[Json]], str]:
    """A claim that has looked, found nothing and waits; its name in the store."""
    claims = api.services.tasks.claims
    waiting = asyncio.create_task(claim(api, claim_id=claim_id, wait="60s", **fields))
    await until(lambda: bool(claims._looks))
    [name] = claims._wakeups._parked
    return waiting, name


async def hints_of(puppet: Puppet, api: Api, name: str) -> list[Message]:
    """What a worker sends after its append leased calls to this claim."""
    facts = await puppet.facts()
    rows = await api.store._rows("select n, begun_at from pending where claim_id = $1 and kind = 0", name)
    found = []
    for row in rows:
        body = encode_body(ScheduleToolCall(row["n"], "a", value_of({}), ToolPolicy()))
        draft = CommandDraft(EntryType.SCHEDULE_TOOL_CALL, Seq(0), TimeMs(0), body, n=row["n"], name="a")
        found.append(leased_message(facts, name, draft, TimeMs(row["begun_at"])))
    return found


def tell(api: Api, hints: Sequence[Message]) -> None:
    """They all come at once, on behalf of nobody."""
    with reaching(NOTHING):
        for hint in hints:
            api.services.tasks.claims._wakeups._on_hint(hint)


async def test_a_parked_claim_with_a_lease_looks_at_what_else_is_offered(api: Api) -> None:
    """Or one busy run, whose next call is leased with each append, would keep the calls of all others waiting."""
    _, puppet = await offered(api)
    puppet.silent = True
    claim_id = str(uuid4())
    waiting, name = await parked_claim(api, claim_id)
    await puppet.call_tool("waits", {})
    await leased(puppet, api, claim_id)
    facts = await puppet.facts()
    tell(api, await hints_of(puppet, api, name))
    api.services.tasks.claims._wakeups.wake_task(api.organization, facts.namespace, facts.toolset, "waits")
    tasks = await asyncio.wait_for(waiting, 10)
    assert sorted(task["tool"] for task in tasks) == ["a", "waits"]


async def test_without_a_hint_what_is_offered_is_looked_at_beside_leases(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_module, "LOOK_EVERY_S", 0.0)
    _, puppet = await offered(api)
    puppet.silent = True
    claim_id = str(uuid4())
    waiting, name = await parked_claim(api, claim_id)
    await puppet.call_tool("waits", {})
    await leased(puppet, api, claim_id)
    tell(api, await hints_of(puppet, api, name))
    tasks = await asyncio.wait_for(waiting, 10)
    assert sorted(task["tool"] for task in tasks) == ["a", "waits"]


async def test_a_lease_whose_claim_has_left_is_on_offer_as_soon_as_its_hint_comes(api: Api) -> None:
    _, puppet = await offered(api)
    puppet.silent = True
    claim_id = str(uuid4())
    assert await claim(api, claim_id=claim_id) == []
    await leased(puppet, api, claim_id)
    tell(api, await hints_of(puppet, api, str(uuid5(UUID(api.organization), claim_id))))
    (task,) = await claim(api, wait="10s")
    assert task["attempt"] == 1


async def test_a_claim_is_answered_with_no_more_than_its_max(api: Api) -> None:
    """Two workers may lease to one claim at the same time; what is too much is on offer again, as not begun."""
    _, puppet = await offered(api)
    puppet.silent = True
    claim_id = str(uuid4())
    waiting, name = await parked_claim(api, claim_id, max=1)
    await leased(puppet, api, claim_id)
    await leased(puppet, api, claim_id)
    tell(api, await hints_of(puppet, api, name))
    assert len(await asyncio.wait_for(waiting, 10)) == 1
    (task,) = await claim(api)
    assert task["attempt"] == 1
