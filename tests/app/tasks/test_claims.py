"""Claims that meet: one asked again, one that another tenant named alike, one that is given a lease too late."""

import asyncio
from uuid import UUID, uuid4, uuid5

from tests.fixtures.api import Api, Puppet
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
