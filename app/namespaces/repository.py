"""Queries about namespaces as a whole; what changes one is audited in the same transaction."""

from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson

from sandbox.journal.entries import Actor
from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.audit import Act, audit

_COLUMNS = "id, name, labels, created_at, suspended_at, retention_days"
_PAGE = f"""select {_COLUMNS} from namespaces where organization_id = $1 and deleted_at is null
  and ($2::text is null or name > $2) order by name limit $3"""
_FIND = f"select {_COLUMNS} from namespaces where organization_id = $1 and name = $2 and deleted_at is null"
_RETENTION = """update namespaces set retention_days = $3 where organization_id = $1 and name = $2
  and retention_days is distinct from $3 returning true"""
_RESUME = (
    "update namespaces set suspended_at = null where id = $1 and suspended_at is not null "
    "and not suspended_with_organization returning true"
)
_SEALS = """select run_id, root, entries, sealed_at, previous, position from seals
  where namespace_id = $1 and position > $2 order by position limit $3"""
_SCRIPTS = """select digest, source, created_at from scripts where namespace_id = $1 and digest > $2
  order by digest limit $3"""
_RUNS = "select run_id from run_facts where namespace_id = $1 and run_id > $2 order by run_id limit $3"
_NO_RUN = RunId("00000000-0000-0000-0000-000000000000")


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    id: NamespaceId
    name: str
    labels: dict[str, str]
    created_at: TimeMs
    suspended_at: TimeMs | None
    retention_days: int | None


class NamespaceRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def page(self, organization: OrganizationId, after: str | None, limit: int) -> list[NamespaceRow]:
        """By name."""
        async with acquired(self._pool) as connection:
            return [_row(row) for row in await connection.fetch(_PAGE, organization, after, limit)]

    async def find(self, organization: OrganizationId, name: str) -> NamespaceRow | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(_FIND, organization, name)
        return None if row is None else _row(row)

    async def keep_for(
        self, organization: OrganizationId, name: str, days: int | None, actor: Actor, ip: str
    ) -> None:
        """How long ended runs are kept; None: as the deployment says."""
        async with acquired(self._pool) as connection, connection.transaction():
            if await connection.fetchval(_RETENTION, organization, name, days):
                act = Act("namespace.retention", f"namespace:{name}", after={"retention_days": days})
                await audit(connection, organization, actor, act, ip=ip)

    async def suspend(self, organization: OrganizationId, found: NamespaceRow, actor: Actor, ip: str) -> None:
        sql = "select suspend_namespace($1)"
        await self._change(organization, found, sql, "namespace.suspend", actor, ip)

    async def resume(self, organization: OrganizationId, found: NamespaceRow, actor: Actor, ip: str) -> None:
        await self._change(organization, found, _RESUME, "namespace.resume", actor, ip)

    async def delete(self, organization: OrganizationId, found: NamespaceRow, actor: Actor, ip: str) -> bool:
        """Everything of it stops, and its key is destroyed. False: somebody was faster."""
        async with acquired(self._pool) as connection, connection.transaction():
            deleted: bool = await connection.fetchval(
                "select delete_namespace($1, $2)", organization, found.id
            )
            if deleted:
                act = Act("namespace.delete", f"namespace:{found.name}")
                await audit(connection, organization, actor, act, ip=ip)
        return deleted

    async def note_export(
        self, organization: OrganizationId, found: NamespaceRow, actor: Actor, ip: str
    ) -> None:
        async with acquired(self._pool) as connection, connection.transaction():
            act = Act("namespace.export", f"namespace:{found.name}")
            await audit(connection, organization, actor, act, ip=ip)

    async def seals(self, namespace: NamespaceId, after: int, limit: int) -> list[dict[str, Any]]:
        """The chain, in its order; `position` counts from 1."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_SEALS, namespace, after, limit)
        return [
            {
                "position": row["position"],
                "run": str(row["run_id"]),
                "root": row["root"].hex(),
                "entries": row["entries"],
                "sealed_at": TimeMs(row["sealed_at"]),
                "previous": None if row["previous"] is None else row["previous"].hex(),
            }
            for row in rows
        ]

    async def scripts(self, namespace: NamespaceId, after: str, limit: int) -> list[dict[str, Any]]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_SCRIPTS, namespace, after, limit)
        return [dict(row) for row in rows]

    async def runs(self, namespace: NamespaceId, after: RunId | None, limit: int) -> list[RunId]:
        """Oldest first."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_RUNS, namespace, after or _NO_RUN, limit)
        return [RunId(str(row["run_id"])) for row in rows]

    async def toolsets(self, organization: OrganizationId, namespace: NamespaceId) -> list[dict[str, Any]]:
        """The pinned toolsets that runs of the namespace use."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select v.name, v.digest, v.definition from toolset_versions v where v.organization_id = $1"
                " and exists (select from run_facts f where f.namespace_id = $2 and f.toolset = v.name"
                " and f.toolset_digest = v.digest) order by v.name, v.digest",
                organization,
                namespace,
            )
        return [
            {
                "name": row["name"],
                "digest": Digest(row["digest"]),
                "tools": orjson.loads(row["definition"]).get("tools", []),
            }
            for row in rows
        ]

    async def _change(
        self,
        organization: OrganizationId,
        found: NamespaceRow,
        sql: str,
        action: str,
        actor: Actor,
        ip: str,
    ) -> None:
        """Nothing is done, nor audited, where it is so already."""
        async with acquired(self._pool) as connection, connection.transaction():
            if await connection.fetchval(sql, found.id):
                act = Act(action, f"namespace:{found.name}")
                await audit(connection, organization, actor, act, ip=ip)


def _row(row: Any) -> NamespaceRow:
    return NamespaceRow(
        NamespaceId(str(row["id"])),
        row["name"],
        orjson.loads(row["labels"]),
        TimeMs(row["created_at"]),
        None if row["suspended_at"] is None else TimeMs(row["suspended_at"]),
        row["retention_days"],
    )
