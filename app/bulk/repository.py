"""Bulk cancels that one request did not finish."""

from dataclasses import dataclass

import asyncpg
import orjson

from sandbox.journal.entries import Actor
from sandbox.journal.ids import Json, NamespaceId, OrganizationId, RunId
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.lists import RunFilter
from tenancy.audit import Act, audit


@dataclass(frozen=True, slots=True)
class BulkCancel:
    """`before`: runs with smaller ids are still to be looked at."""

    namespace: NamespaceId
    id: str
    organization: OrganizationId
    matching: RunFilter
    reason: str | None
    actor: Actor
    before: RunId


class BulkRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def note(self, namespace: NamespaceId, bulk: BulkCancel, matched: int, ip: str) -> None:
        """Audit the request, and keep it for the scheduler."""
        async with acquired(self._pool) as connection, connection.transaction():
            await connection.execute(
                "insert into bulk_cancels (namespace_id, id, organization_id, filter, reason, actor_kind, actor_id,"
                " before, created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, now_ms())",
                namespace,
                bulk.id,
                bulk.organization,
                orjson.dumps(bulk.matching.to_json()).decode(),
                bulk.reason,
                bulk.actor.kind,
                bulk.actor.id,
                bulk.before,
            )
            said: dict[str, Json] = {
                "filter": bulk.matching.to_json(),
                "matched": matched,
                "reason": bulk.reason,
            }
            act = Act("runs.cancel", f"namespace:{namespace}", after=said)
            await audit(connection, bulk.organization, bulk.actor, act, ip=ip)

    async def go_on(self, namespace: NamespaceId, id_: str, before: RunId | None) -> None:
        """Where it goes on; None: it is done."""
        async with acquired(self._pool) as connection:
            if before is None:
                await connection.execute(
                    "delete from bulk_cancels where namespace_id = $1 and id = $2", namespace, id_
                )
            else:
                await connection.execute(
                    "update bulk_cancels set before = least(before, $3::uuid) where namespace_id = $1 and id = $2",
                    namespace,
                    id_,
                    before,
                )


async def unfinished(pool: asyncpg.Pool, limit: int) -> list[BulkCancel]:
    """Of all namespaces, the longest waiting first: for the scheduler."""
    async with acquired(pool) as connection:
        rows = await connection.fetch("select * from bulk_cancels order by created_at limit $1", limit)
    return [
        BulkCancel(
            NamespaceId(str(row["namespace_id"])),
            str(row["id"]),
            OrganizationId(str(row["organization_id"])),
            RunFilter.from_json(orjson.loads(row["filter"])),
            row["reason"],
            Actor(row["actor_kind"], row["actor_id"]),
            RunId(str(row["before"])),
        )
        for row in rows
    ]
