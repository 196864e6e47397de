"""Authentication against a real database: caching, revocation, suspension."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sandbox.store.postgres.connection import create_pool
from tenancy import tokens
from tenancy.engine import engine_of
from tenancy.errors import NamespaceSuspended, OrganizationSuspended, Unauthenticated
from tenancy.principals import Narrow, Principal
from tenancy.repository import TenancyRepository
from tenancy.service import CACHE_S, Authenticator, NewToken, Tenancy, create_organization


class Rig:
    def __init__(self, pool: Any, repository: TenancyRepository, key: str) -> None:
        self.pool = pool
        self.key = key
        self.authenticator = Authenticator(repository)
        self.tenancy = Tenancy(repository, self.authenticator)

    async def principal(self, secret: str | None = None) -> Principal:
        return await self.authenticator.authenticate(f"Bearer {secret or self.key}")

    async def token(self, **fields: Any) -> str:
        wanted = NewToken(
            **{"namespace": "acme", "scopes": (), "ttl_ms": None, "name": "", "narrow": Narrow()} | fields
        )
        made = await self.tenancy.create_token(await self.principal(), wanted, key=None, request_sha256=b"")
        assert made[2] is not None
        return made[2]


@pytest.fixture
async def rig(database_url: str) -> AsyncIterator[Rig]:
    pool = await create_pool(database_url, role="rewind_api", name="test", size=4)
    engine = engine_of(database_url, "rewind_api")
    async with pool.acquire() as connection:
        _, key = await create_organization(connection, "one")
    yield Rig(pool, TenancyRepository(pool, engine), key)
    await engine.dispose()
    await pool.close()


async def test_only_the_digest_is_stored(rig: Rig) -> None:
    secret = await rig.token()
    for table in ("api_keys", "tokens"):
        row = await rig.pool.fetchrow(f"select * from {table}")
        kept = rig.key if table == "api_keys" else secret
        assert row["secret_sha256"] == tokens.digest(kept)
        assert kept not in str(dict(row))
        assert kept.startswith(row["prefix"]) and len(row["prefix"]) == tokens.SHOWN


async def test_a_secret_is_looked_up_once_per_second(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    repository = rig.tenancy.repository
    find = repository.find_key

    async def counted(sha256: bytes) -> Any:
        looked.append(sha256)
        return await find(sha256)

    monkeypatch.setattr(repository, "find_key", counted)
    clock = [100.0]
    monkeypatch.setattr("tenancy.service.time.monotonic", lambda: clock[0])
    await asyncio.gather(*(rig.principal() for _ in range(10)))
    await rig.principal()
    assert len(looked) == 1
    clock[0] += CACHE_S
    await rig.principal()
    assert len(looked) == 2


async def test_revocation_elsewhere_is_noticed_after_the_cache(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("tenancy.service.time.monotonic", lambda: clock[0])
    secret = await rig.token()
    await rig.principal(secret)
    await rig.pool.execute("update tokens set revoked_at = now_ms()")
    await rig.principal(secret)
    clock[0] += CACHE_S
    with pytest.raises(Unauthenticated, match="revoked"):
        await rig.principal(secret)


async def test_a_token_is_not_believed_beyond_its_expiry(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("tenancy.service.time.monotonic", lambda: clock[0])
    secret = await rig.token(ttl_ms=60_000)
    await rig.pool.execute("update tokens set expires_at = now_ms() + 200")
    await rig.principal(secret)
    clock[0] += 0.25
    await rig.pool.execute("update tokens set expires_at = now_ms() - 1")
    with pytest.raises(Unauthenticated, match="expired"):
        await rig.principal(secret)


async def test_suspension(rig: Rig) -> None:
    secret = await rig.token()
    await rig.pool.execute("update namespaces set suspended_at = 1")
    principal = await rig.principal(secret)
    await rig.tenancy.namespace(principal, None)
    with pytest.raises(NamespaceSuspended):
        await rig.tenancy.namespace(principal, None, write=True)
    rig.authenticator.forget()
    await rig.pool.execute("update organizations set suspended_at = 1")
    with pytest.raises(OrganizationSuspended):
        await rig.principal()


async def test_namespaces_of_others_are_not_there(rig: Rig) -> None:
    async with rig.pool.acquire() as connection:
        _, other = await create_organization(connection, "two")
    mine, theirs = await rig.principal(), await rig.principal(other)
    acme = await rig.tenancy.namespace(mine, "acme", write=True)
    assert await rig.tenancy.owns(mine, acme.id)
    assert not await rig.tenancy.owns(theirs, acme.id)
    read = await rig.tenancy.namespace(theirs, "acme")
    assert read.id != acme.id, "of this name they have none yet, which is empty"
    assert (await rig.tenancy.namespace(theirs, "acme", write=True)).id != acme.id


async def test_concurrent_first_uses_make_one_namespace(rig: Rig) -> None:
    principal = await rig.principal()
    found = await asyncio.gather(
        *(rig.tenancy.repository.ensure_namespace(principal.organization, "new") for _ in range(8))
    )
    assert len({namespace.id for namespace in found}) == 1
