"""Queries of webhooks: endpoints, the events that they are told, and deliveries."""

from collections.abc import Callable
from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import NamespaceId, OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.ids import new_id
from tenancy.repository import NO_NAMESPACE, now_ms, reserve_idempotency_key

ROUTE = "POST /v1/webhooks"

_ENDPOINT = "id, url, events, namespaces, labels, created_at, failing_since, disabled_at, disabled_reason"

REDELIVERED_MAX = 10_000
_DELIVERY = (
    "id, namespace_id, event_id, type, attempt, status, response_code, response_body, error, duration_ms, at, "
    "next_at"
)
_AGAIN = """update deliveries set status = 'pending', failures = 0, next_at = now_ms(), lease_until = null
  where organization_id = $1 and endpoint_id = $2 and lease_until is null and id = any ($3::uuid[])"""


class WebhookRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    # -- Endpoints

    async def create(
        self,
        organization: OrganizationId,
        values: dict[str, Any],
        sealed: Callable[[str], bytes],
        *,
        endpoints_max: int,
        key: str | None,
        request_sha256: bytes,
    ) -> tuple[Any, Any]:
        """(the new row, None), or (None, what the idempotency key was used for), or (None, None): too many."""
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
            id_ = new_id(now)
            if key is not None:
                before = await reserve_idempotency_key(
                    connection,
                    organization=organization,
                    namespace=NO_NAMESPACE,
                    route=ROUTE,
                    key=key,
                    request_sha256=request_sha256,
                    object_id=id_,
                    at=now,
                )
                if before is not None:
                    return None, before
            await connection.execute("select from organizations where id = $1 for update", organization)
            row = await connection.fetchrow(
                "insert into webhook_endpoints (organization_id, id, url, secret, events, namespaces, labels, created_at) "
                "select $1, $2, $3, $4, $5, $6, $7, $8 "
                f"where (select count(*) from webhook_endpoints where organization_id = $1) < $9 returning {_ENDPOINT}",
                organization,
                id_,
                values["url"],
                sealed(id_),
                values["events"],
                values["namespaces"],
                orjson.dumps(values["labels"]).decode(),
                now,
                endpoints_max,
            )
            return row, None

    async def get(self, organization: OrganizationId, endpoint: str) -> Any | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"select {_ENDPOINT} from webhook_endpoints where organization_id = $1 and id = $2",
                organization,
                endpoint,
            )

    async def page(self, organization: OrganizationId, before: str | None, limit: int) -> list[Any]:
        async with acquired(self._pool) as connection:
            found: list[Any] = await connection.fetch(
                f"select {_ENDPOINT} from webhook_endpoints where organization_id = $1 "
                "and ($2::uuid is null or id < $2) order by id desc limit $3",
                organization,
                before,
                limit,
            )
        return found

    async def change(
        self, organization: OrganizationId, endpoint: str, values: dict[str, Any], *, enabled: bool | None
    ) -> Any | None:
        labels = values.get("labels")
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                "update webhook_endpoints set url = coalesce($3, url), events = coalesce($4, events), "
                "namespaces = coalesce($5, namespaces), labels = coalesce($6::jsonb, labels), "
                "disabled_at = case when $7::boolean then null when not $7 then coalesce(disabled_at, now_ms()) "
                "else disabled_at end, "
                "disabled_reason = case when $7::boolean then null when not $7 then 'switched off by the organization' "
                "else disabled_reason end, "
                "failing_since = case when $7::boolean then null else failing_since end "
                f"where organization_id = $1 and id = $2 returning {_ENDPOINT}",
                organization,
                endpoint,
                values.get("url"),
                values.get("events"),
                values.get("namespaces"),
                None if labels is None else orjson.dumps(labels).decode(),
                enabled,
            )

    async def rotate(
        self, organization: OrganizationId, endpoint: str, secret: bytes, overlap_ms: int
    ) -> Any | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                "update webhook_endpoints set previous_secret = case when $4 > 0 then secret end, "
                "previous_until = now_ms() + $4, secret = $3 "
                f"where organization_id = $1 and id = $2 returning {_ENDPOINT}",
                organization,
                endpoint,
                secret,
                overlap_ms,
            )

    async def delete(self, organization: OrganizationId, endpoint: str) -> bool:
        async with acquired(self._pool) as connection, connection.transaction():
            await connection.execute(
                "delete from deliveries where organization_id = $1 and endpoint_id = $2",
                organization,
                endpoint,
            )
            done: bool | None = await connection.fetchval(
                "delete from webhook_endpoints where organization_id = $1 and id = $2 returning true",
                organization,
                endpoint,
            )
        return bool(done)

    # -- Events

    async def emit_ping(self, organization: OrganizationId, endpoint: str) -> str:
        async with acquired(self._pool) as connection:
            made: Any = await connection.fetchval(
                "insert into events (namespace_id, id, organization_id, type, endpoint_id, at) "
                "select $1, uuid_v7(at), $2, 'ping', $3, at from (select now_ms() as at) now returning id",
                NO_NAMESPACE,
                organization,
                endpoint,
            )
        return str(made)

    async def events(
        self,
        organization: OrganizationId,
        *,
        type_: str | None,
        namespace: NamespaceId | None,
        before: str | None,
        limit: int,
    ) -> list[Any]:
        """Projected ones, newest first."""
        async with acquired(self._pool) as connection:
            found: list[Any] = await connection.fetch(
                "select id, namespace_id, body from events where organization_id = $1 and body is not null "
                "and endpoint_id is null and ($2::text is null or type = $2) "
                "and ($3::uuid is null or namespace_id = $3) and ($4::uuid is null or id < $4) "
                "order by id desc limit $5",
                organization,
                type_,
                namespace,
                before,
                limit,
            )
        return found

    # -- Deliveries

    async def delivery(self, organization: OrganizationId, endpoint: str, delivery: str) -> Any | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"select {_DELIVERY} from deliveries where organization_id = $1 and endpoint_id = $2 and id = $3",
                organization,
                endpoint,
                delivery,
            )

    async def delivery_page(
        self, organization: OrganizationId, endpoint: str, status: str | None, before: str | None, limit: int
    ) -> list[Any]:
        """Newest first."""
        async with acquired(self._pool) as connection:
            found: list[Any] = await connection.fetch(
                f"select {_DELIVERY} from deliveries where organization_id = $1 and endpoint_id = $2 "
                "and ($3::text is null or status = $3) and ($4::uuid is null or id < $4) "
                "order by id desc limit $5",
                organization,
                endpoint,
                status,
                before,
                limit,
            )
        return found

    async def redeliver(self, organization: OrganizationId, endpoint: str, deliveries: list[str]) -> int:
        """Make these again, from the first place of the schedule; those under way are left alone."""
        async with acquired(self._pool) as connection:
            done: str = await connection.execute(_AGAIN, organization, endpoint, deliveries)
        return int(done.rsplit(" ", 1)[1])

    async def matching(
        self,
        organization: OrganizationId,
        endpoint: str,
        *,
        status: str | None,
        type_: str | None,
        from_: TimeMs | None,
        to: TimeMs | None,
    ) -> list[str]:
        """Settled deliveries, the oldest REDELIVERED_MAX of them."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select id from deliveries where organization_id = $1 and endpoint_id = $2 "
                "and status <> 'pending' and ($3::text is null or status = $3) "
                "and ($4::text is null or type = $4) and ($5::bigint is null or created_at >= $5) "
                "and ($6::bigint is null or created_at < $6) order by id limit $7",
                organization,
                endpoint,
                status,
                type_,
                from_,
                to,
                REDELIVERED_MAX,
            )
        return [str(row["id"]) for row in rows]


async def find_endpoint(
    connection: asyncpg.Connection, organization: OrganizationId, endpoint: str
) -> Any | None:
    """Its URL, and the organization's name."""
    return await connection.fetchrow(
        "select e.url, o.name as organization_name from webhook_endpoints e "
        "join organizations o on o.id = e.organization_id where e.organization_id = $1 and e.id = $2",
        organization,
        endpoint,
    )
