"""All queries about toolsets; each is limited to one organization."""

from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.repository import NO_NAMESPACE, now_ms, reserve_idempotency_key

_VIEW = """select t.id, t.name, v.digest, v.definition,
  case when v.digest = t.digest then t.disabled else '{}' end as disabled
from toolsets t join toolset_versions v on v.organization_id = t.organization_id and v.name = t.name"""


class ToolsetRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def put(
        self,
        organization: OrganizationId,
        *,
        name: str,
        digest: str,
        definition: dict[str, Any],
        servers: bytes | None,
        new_id: Any,
        idempotency: tuple[str, str, bytes] | None,
    ) -> tuple[bool, Any | None]:
        """Pin a version and move `latest` to it; answer whether anything changed, and who had the key before."""
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
            if idempotency is not None:
                route, key, request_sha256 = idempotency
                before = await reserve_idempotency_key(
                    connection,
                    organization=organization,
                    namespace=NO_NAMESPACE,
                    route=route,
                    key=key,
                    request_sha256=request_sha256,
                    object_id=name,
                    at=now,
                )
                if before is not None:
                    return False, before
            await connection.execute(
                "insert into toolset_versions (organization_id, name, digest, definition, created_at) "
                "values ($1, $2, $3, $4, $5) on conflict do nothing",
                organization,
                name,
                digest,
                orjson.dumps(definition).decode(),
                now,
            )
            if servers is not None:
                await connection.execute(
                    "insert into toolset_servers (organization_id, name, digest, sealed, created_at) "
                    "values ($1, $2, $3, $4, $5) on conflict do nothing",
                    organization,
                    name,
                    digest,
                    servers,
                    now,
                )
            changed = await connection.fetchval(
                "insert into toolsets as t (organization_id, id, name, digest, updated_at) "
                "values ($1, $2, $3, $4, $5) on conflict (organization_id, name) do update "
                "set digest = excluded.digest, updated_at = excluded.updated_at, disabled = '{}' "
                "where t.digest <> excluded.digest returning true",
                organization,
                new_id(TimeMs(now)),
                name,
                digest,
                now,
            )
            return bool(changed), None

    async def used_key(self, organization: OrganizationId, route: str, key: str) -> Any | None:
        """What an idempotency key was used for: `request_sha256`, and the toolset's name as `object_id`."""
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                "select request_sha256, object_id from idempotency "
                "where organization_id = $1 and namespace_id = $2 and route = $3 and key = $4",
                organization,
                NO_NAMESPACE,
                route,
                key,
            )

    async def disable(
        self, organization: OrganizationId, name: str, digest: str, disabled: dict[str, str]
    ) -> None:
        """Say which tools of the latest version cannot be called, unless another one is the latest by now."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update toolsets set disabled = $4 where organization_id = $1 and name = $2 and digest = $3",
                organization,
                name,
                digest,
                orjson.dumps(disabled).decode(),
            )

    async def latest_digest(self, organization: OrganizationId, name: str) -> str | None:
        async with acquired(self._pool) as connection:
            digest: str | None = await connection.fetchval(
                "select digest from toolsets where organization_id = $1 and name = $2", organization, name
            )
        return digest

    async def find(self, organization: OrganizationId, name: str, digest: str | None) -> Any | None:
        """The toolset at that version; None: at its latest."""
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"{_VIEW} where t.organization_id = $1 and t.name = $2 and v.digest = coalesce($3, t.digest)",
                organization,
                name,
                digest,
            )

    async def find_definition(
        self, organization: OrganizationId, name: str, digest: str
    ) -> dict[str, Any] | None:
        """A pinned version, also of a toolset that was deleted since: runs go on with what they began with."""
        async with acquired(self._pool) as connection:
            text = await connection.fetchval(
                "select definition from toolset_versions "
                "where organization_id = $1 and name = $2 and digest = $3",
                organization,
                name,
                digest,
            )
        return None if text is None else orjson.loads(text)

    async def find_servers(self, organization: OrganizationId, name: str, digest: str) -> bytes | None:
        """The sealed addresses of a version's servers."""
        async with acquired(self._pool) as connection:
            sealed: bytes | None = await connection.fetchval(
                "select sealed from toolset_servers where organization_id = $1 and name = $2 and digest = $3",
                organization,
                name,
                digest,
            )
        return sealed

    async def page(
        self, organization: OrganizationId, *, name: str | None, before: str | None, limit: int
    ) -> list[Any]:
        async with acquired(self._pool) as connection:
            rows: list[Any] = await connection.fetch(
                f"{_VIEW} and v.digest = t.digest where t.organization_id = $1 "
                "and ($2::text is null or t.name = $2) and ($3::uuid is null or t.id < $3) "
                "order by t.id desc limit $4",
                organization,
                name,
                before,
                limit,
            )
        return rows

    async def delete(self, organization: OrganizationId, name: str) -> bool:
        async with acquired(self._pool) as connection:
            deleted = await connection.fetchval(
                "delete from toolsets where organization_id = $1 and name = $2 returning true",
                organization,
                name,
            )
        return bool(deleted)

    async def script_names(self, organization: OrganizationId, originals: list[str]) -> list[tuple[str, str]]:
        """(original, name in scripts) of these tools in the latest versions of the organization's toolsets."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select distinct tool ->> 'original' as original, tool ->> 'name' as name "
                "from toolsets t join toolset_versions v on v.organization_id = t.organization_id "
                "and v.name = t.name and v.digest = t.digest, "
                "jsonb_array_elements(v.definition -> 'tools') tool "
                "where t.organization_id = $1 and tool ->> 'original' = any ($2::text[])",
                organization,
                originals,
            )
        return [(row["original"], row["name"]) for row in rows]
