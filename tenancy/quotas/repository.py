"""Queries of usage and quotas; what is decided with them is decided in the database, under the counters' lock."""

from typing import Any

import orjson

from sandbox.journal.ids import NamespaceId, OrganizationId, TimeMs

_USED = """with waiting as (
    select coalesce(sum(ended), 0) as ended, coalesce(sum(bytes), 0) as bytes,
      coalesce(sum(cpu_us) filter (where day >= date_trunc('month', today())::date), 0) as cpu_us
    from usage_deltas where namespace_id = $1),
  month as (
    select coalesce(sum(runs), 0) as runs, coalesce(sum(scripts), 0) as scripts, coalesce(sum(cpu_us), 0) as cpu_us
    from usage_days where namespace_id = $1 and day >= date_trunc('month', today())::date)
select o.limits as plan, coalesce(q.limits, '{}') as own, month.runs, month.scripts,
  (month.cpu_us + waiting.cpu_us)::bigint / 1000 as cpu_ms,
  greatest(0, coalesce(c.active, 0) - waiting.ended) as active,
  greatest(0, coalesce(c.storage_bytes, 0) + waiting.bytes) as storage_bytes
from organizations o cross join waiting cross join month
  left join quotas q on q.namespace_id = $1 left join usage_counters c on c.namespace_id = $1
where o.id = $2"""

_DAYS = """with used as (
    select u.namespace_id, u.day, u.runs::bigint, u.cpu_us, u.calls::bigint, u.storage_bytes
    from usage_days u join namespaces n on n.id = u.namespace_id
    where n.organization_id = $1 and ($2::uuid is null or n.id = $2)
    union all
    select d.namespace_id, d.day, 0, d.cpu_us, d.calls, d.bytes
    from usage_deltas d join namespaces n on n.id = d.namespace_id
    where n.organization_id = $1 and ($2::uuid is null or n.id = $2)),
  days as (
    select namespace_id, day, sum(runs) as runs, sum(cpu_us) as cpu_us, sum(calls) as calls,
      sum(sum(storage_bytes)) over (partition by namespace_id order by day) as storage_bytes
    from used group by namespace_id, day)
select d.day, n.name, d.runs::bigint as runs, floor(d.cpu_us / 1000)::bigint as cpu_ms, d.calls::bigint as calls,
  greatest(0, d.storage_bytes)::bigint as storage_bytes
from days d join namespaces n on n.id = d.namespace_id
where d.day >= $3 and d.day < $4 order by d.day, n.name limit $5"""


async def read_used(connection: Any, namespace: NamespaceId, organization: OrganizationId) -> Any:
    """Limits of the plan and of the namespace, and what is used."""
    return await connection.fetchrow(_USED, namespace, organization)


async def read_limits(
    connection: Any, namespace: NamespaceId, organization: OrganizationId
) -> dict[str, int]:
    """What is in force: the namespace's own limits over those of the plan."""
    limits: dict[str, int] = orjson.loads(
        await connection.fetchval("select quota_limits($1, $2)", namespace, organization) or "{}"
    )
    return limits


async def change_limits(
    connection: Any, namespace: NamespaceId, organization: OrganizationId, changes: dict[str, int | None]
) -> None:
    """None takes a limit back: the plan's is in force again."""
    await connection.execute(
        "insert into quotas as q (namespace_id, organization_id, limits) values ($1, $2, jsonb_strip_nulls($3)) "
        "on conflict (namespace_id) do update set limits = jsonb_strip_nulls(q.limits || $3)",
        namespace,
        organization,
        orjson.dumps(changes).decode(),
    )


async def read_days(
    connection: Any,
    organization: OrganizationId,
    namespace: NamespaceId | None,
    *,
    from_: Any,
    to: Any,
    limit: int,
) -> list[Any]:
    """Usage by day and namespace, `to` not included; storage is what there was at the end of the day."""
    found: list[Any] = await connection.fetch(_DAYS, organization, namespace, from_, to, limit)
    return found


async def note_exceeded(connection: Any, namespace: NamespaceId, refusal: dict[str, Any]) -> None:
    """Tell webhooks, once per quota and window, of a refusal whose own transaction was rolled back."""
    await connection.execute("select note_quota($1, $2)", namespace, orjson.dumps(refusal).decode())


async def set_plan(
    connection: Any, organization: OrganizationId, plan: str, limits: dict[str, int]
) -> TimeMs | None:
    """When it was set; None: there is no such organization."""
    at: int | None = await connection.fetchval(
        "update organizations set plan = $2, limits = $3 where id = $1 returning now_ms()",
        organization,
        plan,
        orjson.dumps(limits).decode(),
    )
    return None if at is None else TimeMs(at)
