"""Quotas of namespaces: what is allowed, what is used, and what is in force."""

import datetime as dt
import time
from typing import Any, Literal

import asyncpg
import orjson

from sandbox.journal.durations import duration_text
from sandbox.journal.errors import ApiError, FieldError, QuotaExceeded
from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.postgres.connection import acquired
from tenancy.quotas import repository

Quota = Literal[
    "active_runs",
    "runs_per_month",
    "cpu_ms_per_month",
    "scripts_per_month",
    "ttl_max",
    "script_bytes_max",
    "storage_bytes",
]
QUOTAS: tuple[Quota, ...] = (
    "active_runs",
    "runs_per_month",
    "cpu_ms_per_month",
    "scripts_per_month",
    "ttl_max",
    "script_bytes_max",
    "storage_bytes",
)
_USED = {
    "active_runs": "active",
    "runs_per_month": "runs",
    "cpu_ms_per_month": "cpu_ms",
    "scripts_per_month": "scripts",
    "storage_bytes": "storage_bytes",
}
LIMIT_MAX = 2**53
TTL_MS_MAX = 30 * 86_400_000
"""No run lives longer."""
CACHE_S = 1.0
CACHE_MAX = 10_000
DAYS_MAX = 400
ROWS_MAX = 10_000


class Quotas:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._known: dict[NamespaceId, tuple[float, dict[str, int]]] = {}

    async def view(
        self, organization: OrganizationId, namespace: NamespaceId, engine: dict[str, int]
    ) -> dict[str, Any]:
        """Each quota with its limit (null: none), what is used, and whose limit it is. `engine`: the largest there are."""
        async with acquired(self._pool) as connection:
            row = await repository.read_used(connection, namespace, organization)
        plan, own = orjson.loads(row["plan"]), orjson.loads(row["own"])
        view: dict[str, Any] = {}
        for name in QUOTAS:
            limit = own.get(name, plan.get(name, engine.get(name)))
            view[name] = {
                "limit": limit,
                "used": int(row[_USED[name]]) if name in _USED else None,
                "source": "namespace" if name in own else "plan",
            }
        return view

    async def change(
        self, organization: OrganizationId, namespace: NamespaceId, changes: dict[str, int | None]
    ) -> None:
        """Set limits of a namespace; None: the plan's again. ApiError naming what is no limit."""
        for name, limit in changes.items():
            if limit is not None and not 0 <= limit <= LIMIT_MAX:
                raise ApiError(
                    f"{name}: A limit is a whole number from 0 to 2^53, or null for the plan's.",
                    errors=[FieldError(name, "invalid_value", "From 0 to 2^53, or null.")],
                )
        async with acquired(self._pool) as connection:
            await repository.change_limits(connection, namespace, organization, changes)
        self._known.pop(namespace, None)

    async def limit(
        self, organization: OrganizationId, namespace: NamespaceId, name: Quota, most: int
    ) -> int:
        """The limit in force of what is not counted (`ttl_max`, `script_bytes_max`), `most` at most; a second old at most."""
        known = self._known.get(namespace)
        if known is None or known[0] <= time.monotonic():
            async with acquired(self._pool) as connection:
                limits = await repository.read_limits(connection, namespace, organization)
            if len(self._known) >= CACHE_MAX:
                self._known.clear()
            known = self._known[namespace] = (time.monotonic() + CACHE_S, limits)
        return min(most, known[1].get(name, most))

    async def require(
        self, organization: OrganizationId, namespace: NamespaceId, name: Quota, used: int, *, most: int
    ) -> None:
        """Refuse what is longer or larger than the namespace may have. Waiting would not help: no Retry-After."""
        limit = await self.limit(organization, namespace, name, most)
        if used <= limit:
            return
        told: dict[str, Any] = {"quota": name, "limit": limit, "used": used, "resets_at": None}
        await self.tell(namespace, told)
        if name == "ttl_max":
            words = (
                f"In this namespace a ttl is at most {duration_text(limit)}; this is {duration_text(used)}."
            )
            way_out = "Ask for a shorter one"
        else:
            words = f"In this namespace a script has at most {limit:,} bytes; this has {used:,}."
            way_out = "Send a shorter one"
        raise QuotaExceeded(f"{words} {way_out}, or raise the quota {name}.", extra=told)

    async def ttl_ms(self, organization: OrganizationId, namespace: NamespaceId, asked_ms: int | None) -> int:
        """How long a run may live: as asked, else as long as it may. QuotaExceeded for longer."""
        if asked_ms is None:
            return await self.limit(organization, namespace, "ttl_max", TTL_MS_MAX)
        await self.require(organization, namespace, "ttl_max", asked_ms, most=TTL_MS_MAX)
        return asked_ms

    async def tell(self, namespace: NamespaceId, refusal: dict[str, Any]) -> None:
        """Let webhooks know of a refusal, once per quota and window."""
        async with acquired(self._pool) as connection:
            await repository.note_exceeded(connection, namespace, refusal)

    async def usage(
        self,
        organization: OrganizationId,
        namespace: NamespaceId | None,
        *,
        from_: dt.date,
        to: dt.date,
    ) -> list[Any]:
        """By day and namespace. ApiError for more days or rows than one answer has."""
        if not 0 < (to - from_).days <= DAYS_MAX:
            raise ApiError(
                f"to: At most {DAYS_MAX} days, and `to` after `from`.",
                errors=[FieldError("to", "invalid_value", f"At most {DAYS_MAX} days after `from`.")],
            )
        async with acquired(self._pool) as connection:
            rows = await repository.read_days(
                connection, organization, namespace, from_=from_, to=to, limit=ROWS_MAX + 1
            )
        if len(rows) > ROWS_MAX:
            raise ApiError(f"That are more than {ROWS_MAX:,} rows: ask for fewer days, or one namespace.")
        return rows
