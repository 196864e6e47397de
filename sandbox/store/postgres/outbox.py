"""What webhooks tell: events as their causes recorded them, and deliveries as senders lease them.

Loops of any number of processes work on it, for all organizations at once; what one of an organization reads
or changes goes through `app.webhooks`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import asyncpg
import orjson

from sandbox.journal.ids import Json, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.postgres.connection import acquired

EVENTS_KEPT_MS = 30 * 86_400_000
DELETED_AT_ONCE = 1_000
FAILING_MS_MAX = 5 * 86_400_000
"""An endpoint that failed for so long without a success is switched off."""

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


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell, as its cause recorded it."""

    namespace: NamespaceId
    id: str
    organization: OrganizationId
    type: str
    run: RunId | None
    sequence: int | None
    call: int | None
    endpoint: str | None
    at: TimeMs
    detail: dict[str, Json] | None = None
    """Of what tells of no run: the message's data."""


@dataclass(frozen=True, slots=True)
class Filter:
    endpoint: str
    events: tuple[str, ...]
    namespaces: tuple[str, ...]
    labels: dict[str, str]
    since: TimeMs
    """When the endpoint was made: it is told of nothing that happened before."""

    def wants(self, event: Event, namespace: str | None, labels: dict[str, str]) -> bool:
        return (
            event.at >= self.since
            and (not self.events or event.type in self.events)
            and (not self.namespaces or namespace in self.namespaces)
            and self.labels.items() <= labels.items()
        )


@dataclass(frozen=True, slots=True)
class Leased:
    """A delivery that is to be tried now."""

    organization: OrganizationId
    endpoint: str
    id: str
    namespace: NamespaceId
    event: str
    attempt: int
    failures: int
    url: str
    secret: bytes
    previous_secret: bytes | None
    body: bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of it. `retry_at` None: not tried again."""

    delivered: bool
    code: int | None
    body: bytes | None
    """The beginning of the answer, sealed."""
    error: str | None
    duration_ms: int
    retry_at: TimeMs | None


SwitchedOff = Callable[[asyncpg.Connection, OrganizationId, str], Awaitable[None]]
"""Told, in the transaction that does it, of an endpoint that is switched off."""


class EventLog:
    """Recorded events, until each has its message and its deliveries."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def unprojected(self, limit: int) -> list[Event]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select namespace_id, id, organization_id, type, run_id, sequence, call, endpoint_id, at, detail "
                "from events where body is null order by at limit $1",
                limit,
            )
        return [
            Event(
                NamespaceId(str(row["namespace_id"])),
                str(row["id"]),
                OrganizationId(str(row["organization_id"])),
                row["type"],
                None if row["run_id"] is None else RunId(str(row["run_id"])),
                row["sequence"],
                row["call"],
                None if row["endpoint_id"] is None else str(row["endpoint_id"]),
                TimeMs(row["at"]),
                None if row["detail"] is None else orjson.loads(row["detail"]),
            )
            for row in rows
        ]

    async def filters(self, organization: OrganizationId) -> list[Filter]:
        """What the endpoints of an organization want; those that are switched off want nothing."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select id, events, namespaces, labels, created_at from webhook_endpoints "
                "where organization_id = $1 and disabled_at is null",
                organization,
            )
        return [
            Filter(
                str(row["id"]),
                tuple(row["events"]),
                tuple(row["namespaces"]),
                orjson.loads(row["labels"]),
                TimeMs(row["created_at"]),
            )
            for row in rows
        ]

    async def project(self, event: Event, body: bytes, endpoints: Sequence[str]) -> None:
        """Give the event its body and its deliveries, once: of several projectors the first one does it."""
        async with acquired(self._pool) as connection, connection.transaction():
            mine = await connection.fetchval(
                "update events set body = $3 where namespace_id = $1 and id = $2 and body is null returning true",
                event.namespace,
                event.id,
                body,
            )
            if mine and endpoints:
                await connection.execute(
                    "insert into deliveries (organization_id, endpoint_id, id, namespace_id, event_id, type, "
                    "created_at, next_at) select $1, e, uuid_v7(at), $3, $4, $5, at, at "
                    "from unnest($2::uuid[]) d (e), (select now_ms() as at) now where exists (select from webhook_endpoints w where w.organization_id = $1 and w.id = e) "
                    "on conflict do nothing",
                    event.organization,
                    list(endpoints),
                    event.namespace,
                    event.id,
                    event.type,
                )

    async def drop(self, event: Event) -> None:
        """What it would tell of is gone."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "delete from events where namespace_id = $1 and id = $2", event.namespace, event.id
            )

    async def delete_old(self) -> int:
        """Some of what is older than it is kept; how many events that were."""
        async with acquired(self._pool) as connection, connection.transaction():
            rows = await connection.fetch(
                "delete from events where (namespace_id, id) in (select namespace_id, id from events "
                "where at < now_ms() - $1 order by at limit $2) returning namespace_id, id",
                EVENTS_KEPT_MS,
                DELETED_AT_ONCE,
            )
            await connection.execute(
                "delete from deliveries where (namespace_id, event_id) in "
                "(select * from unnest($1::uuid[], $2::uuid[]))",
                [row["namespace_id"] for row in rows],
                [row["id"] for row in rows],
            )
        return len(rows)


class DeliveryQueue:
    """Deliveries that are due, and what came of them."""

    def __init__(self, pool: asyncpg.Pool, switched_off: SwitchedOff) -> None:
        self._pool = pool
        self._switched_off = switched_off

    async def claim(
        self, limit: int, *, per_endpoint: int, per_organization: int, lease_ms: int
    ) -> tuple[TimeMs, list[Leased]]:
        """Lease what is due: (now, deliveries). Nobody has more than their share under way, on all hosts; who has
        least comes first.
        """
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select * from claim_deliveries($1, $2, $3, $4)",
                limit,
                per_endpoint,
                per_organization,
                lease_ms,
            )
            now = TimeMs(await connection.fetchval("select now_ms()"))
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
                await self._switched_off(connection, *place)
        return switched_off
