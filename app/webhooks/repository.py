"""Queries of webhooks: endpoints, the events that they are told, and deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.ids import new_id
from tenancy.repository import NO_NAMESPACE, now_ms, reserve_idempotency_key

ROUTE = "POST /v1/webhooks"
EVENTS_KEPT_MS = 30 * 86_400_000
DELETED_AT_ONCE = 1_000

_ENDPOINT = "id, url, events, namespaces, labels, created_at, failing_since, disabled_at, disabled_reason"


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


@dataclass(frozen=True, slots=True)
class Filter:
    endpoint: str
    events: tuple[str, ...]
    namespaces: tuple[str, ...]
    labels: dict[str, str]

    def wants(self, type_: str, namespace: str | None, labels: dict[str, str]) -> bool:
        return (
            (not self.events or type_ in self.events)
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
    body: str | None
    error: str | None
    duration_ms: int
    retry_at: TimeMs | None


class WebhookRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def now(self) -> TimeMs:
        async with acquired(self._pool) as connection:
            return await now_ms(connection)

    # -- Endpoints

    async def create(
        self,
        organization: OrganizationId,
        id_: str,
        values: dict[str, Any],
        secret: bytes,
        *,
        endpoints_max: int,
        key: str | None,
        request_sha256: bytes,
    ) -> tuple[Any, Any]:
        """(the new row, None), or (None, what the idempotency key was used for), or (None, None): too many."""
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
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
                secret,
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

    async def unprojected(self, limit: int) -> list[Event]:
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select namespace_id, id, organization_id, type, run_id, sequence, call, endpoint_id, at "
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
            )
            for row in rows
        ]

    async def filters(self, organization: OrganizationId) -> list[Filter]:
        """What the endpoints of an organization want; those that are switched off want nothing."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                "select id, events, namespaces, labels from webhook_endpoints "
                "where organization_id = $1 and disabled_at is null",
                organization,
            )
        return [
            Filter(
                str(row["id"]), tuple(row["events"]), tuple(row["namespaces"]), orjson.loads(row["labels"])
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
                now = await now_ms(connection)
                await connection.execute(
                    "insert into deliveries (organization_id, endpoint_id, id, namespace_id, event_id, type, "
                    "created_at, next_at) select $1, e, i, $4, $5, $6, $7, $7 from unnest($2::uuid[], $3::uuid[]) d (e, i) "
                    "where exists (select from webhook_endpoints w where w.organization_id = $1 and w.id = e) "
                    "on conflict do nothing",
                    event.organization,
                    list(endpoints),
                    [new_id(now) for _ in endpoints],
                    event.namespace,
                    event.id,
                    event.type,
                    now,
                )

    async def drop(self, event: Event) -> None:
        """What it would tell of is gone."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "delete from events where namespace_id = $1 and id = $2", event.namespace, event.id
            )

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
