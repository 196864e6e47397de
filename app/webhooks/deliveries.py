"""Queries of deliveries: which are due, what came of an attempt, and those that are asked for again."""

from typing import Any

import asyncpg

from app.webhooks.repository import Attempt, Leased
from sandbox.journal.ids import NamespaceId, OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.repository import now_ms

FAILING_MS_MAX = 5 * 86_400_000
"""An endpoint that failed for so long without a success is switched off."""
REDELIVERED_MAX = 10_000

_DELIVERY = (
    "id, event_id, type, attempt, status, response_code, response_body, error, duration_ms, at, next_at"
)
_SETTLE = """update deliveries set status = $5, response_code = $6, response_body = $7, error = $8,
    duration_ms = $9, next_at = $10, lease_until = null,
    failures = case when $5 = 'delivered' then failures else failures + 1 end
  where organization_id = $1 and endpoint_id = $2 and id = $3 and attempt = $4 and lease_until is not null
  returning true"""
_FAILED = """update webhook_endpoints set failing_since = coalesce(failing_since, now_ms()),
    disabled_at = case when failing_since < now_ms() - $3 then now_ms() end,
    disabled_reason = case when failing_since < now_ms() - $3 then 'every delivery failed for five days' end
  where organization_id = $1 and id = $2 and disabled_at is null returning disabled_at is not null"""
_GIVE_UP = """update deliveries set status = 'failed', next_at = null, lease_until = null,
    error = 'the endpoint was switched off'
  where organization_id = $1 and endpoint_id = $2 and status = 'pending'"""
_AGAIN = """update deliveries set status = 'pending', failures = 0, next_at = now_ms(), lease_until = null
  where organization_id = $1 and endpoint_id = $2 and lease_until is null and id = any ($3::uuid[])"""


class DeliveryRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def claim(self, limit: int, *, per_endpoint: int, lease_ms: int) -> tuple[TimeMs, list[Leased]]:
        """Lease what is due: (now, deliveries). No endpoint has more than its share under way, on all hosts."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select * from claim_deliveries($1, $2, $3)", limit, per_endpoint, lease_ms
            )
            now = await now_ms(connection)
        return now, [
            Leased(
                OrganizationId(str(row["organization_id"])),
                str(row["endpoint_id"]),
                str(row["id"]),
                NamespaceId(str(row["namespace_id"])),
                str(row["event_id"]),
                row["attempt"],
                row["failures"],
                row["url"],
                row["secret"],
                row["previous_secret"],
                row["body"],
            )
            for row in rows
        ]

    async def settle(self, leased: Leased, attempt: Attempt) -> bool:
        """Record an attempt. True: it was one failure too many, the endpoint is switched off now."""
        status = "delivered" if attempt.delivered else "failed" if attempt.retry_at is None else "pending"
        place = (leased.organization, leased.endpoint)
        async with acquired(self._pool) as connection, connection.transaction():
            mine = await connection.fetchval(
                _SETTLE,
                *place,
                leased.id,
                leased.attempt,
                status,
                attempt.code,
                attempt.body,
                attempt.error,
                attempt.duration_ms,
                attempt.retry_at,
            )
            if not mine:
                return False
            if attempt.delivered:
                await connection.execute(
                    "update webhook_endpoints set failing_since = null "
                    "where organization_id = $1 and id = $2 and failing_since is not null",
                    *place,
                )
                return False
            switched_off = bool(await connection.fetchval(_FAILED, *place, FAILING_MS_MAX))
            if switched_off:
                await connection.execute(_GIVE_UP, *place)
        return switched_off

    async def get(self, organization: OrganizationId, endpoint: str, delivery: str) -> Any | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"select {_DELIVERY} from deliveries where organization_id = $1 and endpoint_id = $2 and id = $3",
                organization,
                endpoint,
                delivery,
            )

    async def of_event(self, organization: OrganizationId, endpoint: str, event: str) -> Any | None:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"select {_DELIVERY} from deliveries "
                "where organization_id = $1 and endpoint_id = $2 and event_id = $3",
                organization,
                endpoint,
                event,
            )

    async def page(
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
