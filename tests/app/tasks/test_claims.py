"""Claims that meet: one asked again, one that another tenant named alike, one that is given a lease too late."""

import asyncio
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from app.tasks.schemas import ClaimBody
from sandbox.journal.ids import TimeMs
from sandbox.store.blobs import BlobStore
from sandbox.store.interface import LEASE_MS, TaskFilter
from sandbox.store.postgres.tasks import key_of
from tenancy.principals import KEY_SCOPES, Principal
from tests.fixtures.api import Api, Puppet, running_api
from tests.fixtures.tasks import claim, offered, post, settle
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
    await api.services.tasks.claims.sweep()
    (beat,) = await settle(api, "heartbeat", {"token": task["token"]})
    assert beat["ok"], "the first request gave the task back"


async def test_a_lease_for_a_claim_that_was_answered_is_given_back(api: Api) -> None:
    _, puppet = await offered(api)
    claim_id = str(uuid4())
    assert await claim(api, claim_id=claim_id) == []
    await leased(puppet, api, claim_id)
    assert await claim(api) == []
    await api.services.tasks.claims.sweep()
    (task,) = await claim(api)
    assert task["attempt"] == 1


async def test_the_sweep_leaves_what_a_claim_was_answered_with(api: Api) -> None:
    _, puppet = await offered(api)
    claim_id = str(uuid4())
    assert await claim(api, claim_id=claim_id) == []
    await leased(puppet, api, claim_id)
    (task,) = await claim(api, claim_id=claim_id)
    await api.services.tasks.claims.sweep()
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
        await claims.sweep()
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
        await api.services.tasks.claims.sweep()
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
