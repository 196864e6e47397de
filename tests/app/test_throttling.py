"""What nobody may do too often: guessing, and owning organizations; also when all of it comes at once."""

import asyncio

import pytest

from sandbox.store.postgres.connection import acquired
from tenancy.identity.repository import find_step, insert_step
from tenancy.people import service
from tenancy.people.throttle import (
    ACCOUNT_FREE,
    ADDRESS_FREE,
    account_subject,
    address_subject,
    count_attempt,
)
from tests.app.test_people import Browser, link
from tests.fixtures.api import Api
from tests.fixtures.database import Clock


async def test_an_address_that_tries_many_accounts_waits(own_api: Api) -> None:
    async with acquired(own_api.store.pool) as connection:
        for number in range(ADDRESS_FREE + 1):
            await count_attempt(connection, account_subject(f"{number}@x"), address_subject("203.0.113.5"))
    assert (await Browser(own_api, "203.0.113.5").log_in("fresh@example.com")).status_code == 429
    assert (await Browser(own_api, "203.0.113.6").log_in("fresh@example.com")).status_code == 401


async def test_many_tries_at_once_are_no_more_than_many_tries(own_api: Api, clock: Clock) -> None:
    """Each counts before it is made: nobody guesses a hundred times while the first guess is being judged."""
    browser = Browser(own_api)
    await browser.sign_up("sam@example.com")
    others = [Browser(own_api, f"203.0.113.{number}") for number in range(40)]
    tried = await asyncio.gather(*(other.log_in("sam@example.com", "a guess at it") for other in others))
    statuses = [answer.status_code for answer in tried]
    assert statuses.count(401) == ACCOUNT_FREE + 1
    assert statuses.count(429) == len(others) - ACCOUNT_FREE - 1
    clock.advance(2_001)
    rights = await asyncio.gather(*(other.log_in("sam@example.com") for other in others[:3]))
    assert [answer.status_code for answer in rights].count(303) >= 1
    async with acquired(own_api.store.pool) as connection:
        left = await connection.fetch("select subject, failures from login_failures where failures > 2")
    assert left == [], "who signs in is not blamed for it"


async def test_a_person_owns_so_many_organizations(own_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has quotas of its own; asking for many at once makes no more."""
    monkeypatch.setattr(service, "OWNED_MAX", 3)
    browser = Browser(own_api)
    await browser.sign_up("max@example.com")
    fields = {"csrf": await browser.csrf(), "organization": "Another"}
    made = await asyncio.gather(*(browser.client.post("/organizations", data=fields) for _ in range(5)))
    assert sorted(answer.status_code for answer in made) == [303, 303, 400, 400, 400]
    assert "the most there may be" in next(one.text for one in made if one.status_code == 400)


@pytest.mark.parametrize("fields", [{"do": "remove"}, {"do": "role", "role": "developer"}])
async def test_who_is_admin_no_more_has_invited_nobody(own_api: Api, fields: dict[str, str]) -> None:
    """Or a former admin would come back by an invitation to another address of their own."""
    owner, admin = Browser(own_api), Browser(own_api, "203.0.113.8")
    organization = await owner.sign_up("own@example.com")
    members = f"/members?organization={organization}"
    await owner.post(members, {"do": "invite", "email": "ad@example.com", "role": "admin"})
    await admin.post(await link(own_api, "ad@example.com"), {"password": "seven purple tractors"})
    await admin.post(members, {"do": "invite", "email": "self@elsewhere.example", "role": "admin"})
    await owner.post(members, {"do": "invite", "email": "kept@example.com", "role": "viewer"})
    async with acquired(own_api.store.pool) as connection:
        person = await connection.fetchval("select id from people where email = 'ad@example.com'")
    changed = await owner.post(members, {**fields, "person": str(person)})
    assert changed.status_code == 200
    assert (await admin.client.get(await link(own_api, "self@elsewhere.example"))).status_code == 404
    assert (await owner.client.get(await link(own_api, "kept@example.com"))).status_code == 200


async def test_a_new_password_ends_sign_ins_that_began_with_the_old_one(own_api: Api) -> None:
    browser = Browser(own_api)
    await browser.sign_up("pat@example.com")
    async with acquired(own_api.store.pool) as connection:
        person = await connection.fetchval("select id from people where email = 'pat@example.com'")
        await insert_step(connection, b"x", "code", person=str(person), body={"next": "/"}, ttl_ms=300_000)
        await browser.post("/reset", {"email": "pat@example.com"})
        await browser.post(await link(own_api, "pat@example.com"), {"password": "eleven yellow submarines"})
        assert await find_step(connection, b"x", "code") is None
