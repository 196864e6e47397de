"""All queries of the tenancy. Each is limited to one organization or namespace, or looks up a secret.

Reads of single pages go through SQLModel; what is on the path of every request, and what is written, is raw
asyncpg (SQLModel costs 4.5 to 11 times as much).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, OrganizationId, TimeMs
from sandbox.store.postgres.connection import LOST, acquired
from sandbox.store.postgres.reach import TenantPool, reach
from tenancy.audit import Act, audit
from tenancy.ids import new_id
from tenancy.models import Namespace, Organization, Token
from tenancy.principals import NamespaceRef, Principal

NO_NAMESPACE = NamespaceId("00000000-0000-0000-0000-000000000000")
"""Stands for the namespace of calls that belong to none, in the table of idempotency keys."""

_BY_KEY = """
select k.id, k.organization_id, k.scopes, k.allow_ips, k.revoked_at, k.last_used_at, $1::bytea as found_sha256,
  case when k.secret_sha256 = $1 then k.expires_at when k.previous_sha256 = $1 then least(k.expires_at, k.previous_until)
    else least(k.expires_at, k.older_until) end as expires_at,
  o.suspended_at, o.suspended_reason, o.deleted_at, now_ms() as now, k.operator
from api_keys k join organizations o on o.id = k.organization_id
where k.secret_sha256 = $1 or k.previous_sha256 = $1 or k.older_sha256 = $1"""
_SELECT_BEARER = """
select t.id, t.organization_id, t.scopes, t.expires_at, t.revoked_at, t.last_used_at, t.secret_sha256 as found_sha256,
  o.suspended_at, o.suspended_reason, o.deleted_at, now_ms() as now,
  t.narrow, t.namespace_id, n.name as namespace_name, n.suspended_at is not null as namespace_suspended
from tokens t
  join organizations o on o.id = t.organization_id
  join namespaces n on n.id = t.namespace_id
where t.secret_sha256 = $1"""
_NAMESPACE = "select id, name, suspended_at is not null as suspended from namespaces "


class TenancyRepository:
    def __init__(self, pool: asyncpg.Pool | TenantPool, engine: AsyncEngine) -> None:
        self.pool = pool
        self._session = async_sessionmaker(engine, class_=AsyncSession, expire_on_commit=False)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncSession]:
        try:
            async with self._session() as session:
                await (await session.connection()).exec_driver_sql(reach().settings_sql)
                yield session
        except (DBAPIError, *LOST) as error:
            if isinstance(error, DBAPIError) and not error.connection_invalidated:
                raise
            raise Unavailable(f"the database is not reachable: {type(error).__name__}") from error

    # -- Secrets

    async def find_key(self, secret_sha256: bytes) -> Any | None:
        async with acquired(self.pool) as connection:
            return await connection.fetchrow(_BY_KEY, secret_sha256)

    async def find_token(self, secret_sha256: bytes) -> Any | None:
        async with acquired(self.pool) as connection:
            return await connection.fetchrow(_SELECT_BEARER, secret_sha256)

    async def mark_used(self, table: str, id_: str, at: TimeMs) -> None:
        statements = {
            "key": "update api_keys set last_used_at = $2 where id = $1",
            "token": "update tokens set last_used_at = $2 where id = $1",
        }
        async with acquired(self.pool) as connection:
            await connection.execute(statements[table], id_, at)

    async def note_refused(self, principal: Principal) -> None:
        """It was used from where it may not be; the task's reach says from where."""
        async with acquired(self.pool) as connection:
            await audit(
                connection,
                principal.organization,
                principal.actor,
                Act("key.refused", f"key:{principal.id}", None, {"because": "allow_ips"}),
                ip=reach().ip,
            )

    async def list_tokens(
        self,
        organization: OrganizationId,
        *,
        namespace: NamespaceId | None,
        before: str | None,
        limit: int,
    ) -> Sequence[tuple[Token, str]]:
        """Tokens that are not revoked, newest first, each with its namespace's name."""
        query = (
            select(Token, Namespace.name)
            .join(Namespace, col(Namespace.id) == col(Token.namespace_id))
            .where(Token.organization_id == UUID(organization), col(Token.revoked_at).is_(None))
            .order_by(col(Token.id).desc())
            .limit(limit)
        )
        if namespace is not None:
            query = query.where(Token.namespace_id == UUID(namespace))
        if before is not None:
            query = query.where(Token.id < UUID(before))
        async with self._reading() as session:
            return [(token, name) for token, name in (await session.exec(query)).all()]

    async def get_token(self, organization: OrganizationId, token: str) -> tuple[Token, str] | None:
        query = (
            select(Token, Namespace.name)
            .join(Namespace, col(Namespace.id) == col(Token.namespace_id))
            .where(
                Token.organization_id == UUID(organization),
                Token.id == UUID(token),
                col(Token.revoked_at).is_(None),
            )
        )
        async with self._reading() as session:
            found = (await session.exec(query)).first()
        return None if found is None else (found[0], found[1])

    async def revoke_token(self, organization: OrganizationId, token: str) -> bool:
        async with acquired(self.pool) as connection:
            revoked = await connection.fetchval(
                "update tokens set revoked_at = now_ms() "
                "where organization_id = $1 and id = $2 and revoked_at is null returning true",
                organization,
                token,
            )
        return bool(revoked)

    # -- Organizations and namespaces

    async def find_namespace(self, organization: OrganizationId, name: str) -> NamespaceRef | None:
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(
                _NAMESPACE + "where organization_id = $1 and name = $2", organization, name
            )
        return None if row is None else _ref(row)

    async def ensure_namespace(self, organization: OrganizationId, name: str) -> NamespaceRef:
        """Find the namespace or create it; concurrent callers get the same one."""
        found = await self.find_namespace(organization, name)
        if found is not None:
            return found
        async with acquired(self.pool) as connection:
            now = await now_ms(connection)
            await connection.execute(
                "insert into namespaces (id, organization_id, name, created_at) values ($1, $2, $3, $4) "
                "on conflict (organization_id, name) do nothing",
                new_id(now),
                organization,
                name,
                now,
            )
            row = await connection.fetchrow(
                _NAMESPACE + "where organization_id = $1 and name = $2", organization, name
            )
        return _ref(row)

    async def get_namespace(self, organization: OrganizationId, name: str) -> Namespace | None:
        query = select(Namespace).where(
            Namespace.organization_id == UUID(organization), Namespace.name == name
        )
        async with self._reading() as session:
            return (await session.exec(query)).first()

    async def label_namespace(self, organization: OrganizationId, name: str, labels: dict[str, str]) -> None:
        async with acquired(self.pool) as connection:
            await connection.execute(
                "update namespaces set labels = $3 where organization_id = $1 and name = $2",
                organization,
                name,
                orjson.dumps(labels).decode(),
            )

    async def name_of(self, namespace: NamespaceId) -> str | None:
        async with acquired(self.pool) as connection:
            name: str | None = await connection.fetchval(
                "select name from namespaces where id = $1", namespace
            )
        return name

    async def organization_of(self, namespace: NamespaceId) -> OrganizationId | None:
        async with acquired(self.pool) as connection:
            found = await connection.fetchval(
                "select organization_id from namespaces where id = $1", namespace
            )
        return None if found is None else OrganizationId(str(found))


@dataclass(frozen=True, slots=True)
class SecretRow:
    """What may be told of a secret."""

    name: str
    created_at: TimeMs
    updated_at: TimeMs


class SecretRepository:
    """Sealed secrets; NO_NAMESPACE stands for the organization as a whole."""

    def __init__(self, pool: asyncpg.Pool | TenantPool) -> None:
        self._pool = pool

    async def put(
        self, organization: OrganizationId, namespace: NamespaceId, name: str, sealed: bytes
    ) -> SecretRow:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "insert into secrets (organization_id, namespace_id, name, sealed, created_at, updated_at) "
                "values ($1, $2, $3, $4, now_ms(), now_ms()) on conflict (organization_id, namespace_id, name) "
                "do update set sealed = excluded.sealed, updated_at = excluded.updated_at "
                "returning name, created_at, updated_at",
                organization,
                namespace,
                name,
                sealed,
            )
        return _secret(row)

    async def get(self, organization: OrganizationId, namespace: NamespaceId, name: str) -> SecretRow | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select name, created_at, updated_at from secrets "
                "where organization_id = $1 and namespace_id = $2 and name = $3",
                organization,
                namespace,
                name,
            )
        return None if row is None else _secret(row)

    async def page(
        self, organization: OrganizationId, namespace: NamespaceId, after: str | None, limit: int
    ) -> list[SecretRow]:
        """By name."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select name, created_at, updated_at from secrets where organization_id = $1 "
                "and namespace_id = $2 and ($3::text is null or name > $3) order by name limit $4",
                organization,
                namespace,
                after,
                limit,
            )
        return [_secret(row) for row in rows]

    async def delete(self, organization: OrganizationId, namespace: NamespaceId, name: str) -> bool:
        async with acquired(self._pool) as connection:
            deleted = await connection.fetchval(
                "delete from secrets where organization_id = $1 and namespace_id = $2 and name = $3 "
                "returning true",
                organization,
                namespace,
                name,
            )
        return bool(deleted)

    async def sealed(
        self, organization: OrganizationId, namespaces: Sequence[NamespaceId], names: Sequence[str]
    ) -> dict[tuple[NamespaceId, str], bytes]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select namespace_id, name, sealed from secrets where organization_id = $1 "
                "and namespace_id = any ($2::uuid[]) and name = any ($3::text[])",
                organization,
                list(namespaces),
                list(names),
            )
        return {(NamespaceId(str(row["namespace_id"])), row["name"]): row["sealed"] for row in rows}


# -- Within a transaction of the caller


async def now_ms(connection: Any) -> TimeMs:
    return TimeMs(await connection.fetchval("select now_ms()"))


async def insert_organization(connection: Any, organization: Organization) -> None:
    await connection.execute(
        "insert into organizations (id, name, created_at) values ($1, $2, $3)",
        organization.id,
        organization.name,
        organization.created_at,
    )


async def insert_token(connection: Any, token: Token) -> None:
    await connection.execute(
        "insert into tokens (id, organization_id, namespace_id, name, prefix, secret_sha256, scopes, narrow, "
        "expires_at, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        token.id,
        token.organization_id,
        token.namespace_id,
        token.name,
        token.prefix,
        token.secret_sha256,
        token.scopes,
        orjson.dumps(token.narrow).decode(),
        token.expires_at,
        token.created_at,
    )


async def reserve_idempotency_key(
    connection: Any,
    *,
    organization: OrganizationId,
    namespace: NamespaceId,
    route: str,
    key: str,
    request_sha256: bytes,
    object_id: str,
    at: TimeMs,
) -> Any | None:
    """Take the key for this object, or return the row of who took it before.

    A concurrent request with the same key waits here until the first has committed or rolled back.
    """
    taken = await connection.fetchval(
        "insert into idempotency (organization_id, namespace_id, route, key, request_sha256, object_id, created_at) "
        "values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing returning true",
        organization,
        namespace,
        route,
        key,
        request_sha256,
        object_id,
        at,
    )
    if taken:
        return None
    return await find_idempotency_key(
        connection, organization=organization, namespace=namespace, route=route, key=key
    )


async def find_idempotency_key(
    connection: Any, *, organization: OrganizationId, namespace: NamespaceId, route: str, key: str
) -> Any | None:
    return await connection.fetchrow(
        "select request_sha256, object_id from idempotency "
        "where organization_id = $1 and namespace_id = $2 and route = $3 and key = $4",
        organization,
        namespace,
        route,
        key,
    )


def _ref(row: Any) -> NamespaceRef:
    return NamespaceRef(NamespaceId(str(row["id"])), row["name"], row["suspended"])


def _secret(row: Any) -> SecretRow:
    return SecretRow(row["name"], TimeMs(row["created_at"]), TimeMs(row["updated_at"]))
