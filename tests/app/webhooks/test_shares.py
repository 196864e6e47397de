"""Receivers that hang cost their owner's places, and nobody else's."""

from app.webhooks.sender import AT_ONCE, PER_ENDPOINT, PER_ORGANIZATION
from tests.app.webhooks.test_webhooks import project
from tests.fixtures.api import Api


async def test_an_organization_takes_its_share_and_comes_last(own_api: Api) -> None:
    """Its many endpoints hang: others' deliveries begin at once, and before its own next ones."""
    api, queue = own_api, own_api.services.hooks.sender._deliveries

    async def pings(key: str, endpoints: int, each: int) -> None:
        for number in range(endpoints):
            made = await api.call(
                "POST", "/v1/webhooks", secret=key, json={"url": f"https://h.example/{number}"}
            )
            for _ in range(each):
                await api.call("POST", f"/v1/webhooks/{made.json()['id']}/ping", secret=key)

    async def claimed(limit: int) -> list[str]:
        _, leased = await queue.claim(
            limit, per_endpoint=PER_ENDPOINT, per_organization=PER_ORGANIZATION, lease_ms=30_000
        )
        return [one.organization for one in leased]

    await pings(api.key, 8, 3)
    await project(api)
    assert len(await claimed(AT_ONCE)) == PER_ORGANIZATION
    assert await claimed(AT_ONCE) == []
    for _ in range(3):
        await pings(await api.other_organization(), 1, 2)
    await project(api)
    first, second = await claimed(3), await claimed(3)
    assert sorted(first) == sorted(second), "each of the three has one before any has two"
    assert len(set(first)) == 3 and api.organization not in first
