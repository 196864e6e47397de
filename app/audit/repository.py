"""Reads of the audit log. It is written by triggers (migration 0023) and by `tenancy/audit.py`."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.ids import OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.reach import TenantPool
from tenancy.audit import Act, audit
from tenancy.principals import Principal


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What is asked for; None: all. `actor` is an id or `kind:id`; `action` may end in `.*`, `target` in `:*`."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    from_ms: TimeMs | None = None
    to_ms: TimeMs | None = None


_PAGE = """
select id, at, actor_kind, actor_id, action, target, ip, before::text as before, after::text as after from audit_log
where organization_id = $1
  and ($2::text is null or actor_id = $2 or actor_kind || ':' || actor_id = $2)
  and ($3::text is null or action = $3 or right($3, 2) = '.*' and starts_with(action, left($3, -1)))
  and ($4::text is null or target = $4 or right($4, 2) = ':*' and starts_with(target, left($4, -1)))
  and ($5::bigint is null or at >= $5) and ($6::bigint is null or at < $6)
  and ($7::uuid is null or id < $7)
order by id desc limit $8"""


class AuditRepository:
    def __init__(self, pool: asyncpg.Pool | TenantPool) -> None:
        self._pool = pool

    async def page(
        self, organization: OrganizationId, wanted: AuditFilter, *, before: str | None, limit: int
    ) -> list[Any]:
        """Newest first."""
        async with acquired(self._pool) as connection:
            rows: list[Any] = await connection.fetch(
                _PAGE,
                organization,
                wanted.actor,
                wanted.action,
                wanted.target,
                wanted.from_ms,
                wanted.to_ms,
                before,
                limit,
            )
        return rows

    async def record(self, principal: Principal, act: Act, ip: str) -> None:
        """What no trigger sees: reads, and acts whose change is made by another connection."""
        async with acquired(self._pool) as connection:
            await audit(connection, principal.organization, principal.actor, act, ip=ip)
