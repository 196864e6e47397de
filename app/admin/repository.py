"""What operators read and change, over all organizations; nothing here is within reach of a request.

Connections are the system's, and name the operator in their settings, so that the triggers of the audit log know.
"""

from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId, TimeMs, WorkerId

_COUNTS = """
  (select count(*) from members m where m.organization_id = o.id) as members,
  (select count(*) from namespaces n where n.organization_id = o.id and n.deleted_at is null) as namespaces,
  (select greatest(0, coalesce(sum(c.active), 0) - coalesce(sum(d.ended), 0)) from namespaces n
     join usage_counters c on c.namespace_id = n.id
     left join lateral (select sum(ended) as ended from usage_deltas d where d.namespace_id = n.id) d on true
   where n.organization_id = o.id)::bigint as active_runs"""
_ORGANIZATION = (
    "o.id, o.name, o.plan, o.created_at, o.suspended_at, o.suspended_reason, o.deleted_at, o.purged_at"
)
_LIST = f"""select {_ORGANIZATION}, {_COUNTS} from organizations o
  where ($1::text is null or strpos(lower(o.name), lower($1)) > 0) and ($2::uuid is null or o.id < $2)
  order by o.id desc limit $3"""
_SHOW = f"""select {_ORGANIZATION}, o.limits::text as limits, {_COUNTS},
  array(select p.email from members m join people p on p.id = m.person_id
    where m.organization_id = o.id and m.role = 'owner' order by 1) as owners,
  (select count(*) from api_keys k where k.organization_id = o.id and k.revoked_at is null) as keys,
  (select count(*) from webhook_endpoints w where w.organization_id = o.id) as webhooks,
  (select count(*) from webhook_endpoints w where w.organization_id = o.id and w.disabled_at is not null) as webhooks_off,
  (select count(*) from runs r join namespaces n on n.id = r.namespace_id
    where n.organization_id = o.id and r.status = 5) as quarantined,
  month.runs, month.cpu_ms
  from organizations o cross join lateral (
    select coalesce(sum(u.runs), 0)::bigint as runs, (coalesce(sum(u.cpu_us), 0) / 1000)::bigint as cpu_ms from (
      select d.runs, d.cpu_us from usage_days d join namespaces n on n.id = d.namespace_id
        where n.organization_id = o.id and d.day >= date_trunc('month', today())::date
      union all select 0, d.cpu_us from usage_deltas d join namespaces n on n.id = d.namespace_id
        where n.organization_id = o.id and d.day >= date_trunc('month', today())::date) u) month
  where o.id = $1"""
_NAMESPACES = """select n.id, n.name, n.created_at, n.suspended_at, n.suspended_with_organization from namespaces n
  where n.organization_id = $1 and n.deleted_at is null and ($2::text is null or n.name > $2) order by n.name limit $3"""
_QUARANTINED = """select r.namespace_id, r.run_id, f.organization_id, o.name as organization_name, n.name as namespace_name,
    q.at, q.report, exists (select from pending p where p.namespace_id = r.namespace_id and p.run_id = r.run_id
      and p.kind = 6) as abandoning
  from runs r join run_facts f on f.namespace_id = r.namespace_id and f.run_id = r.run_id
    join organizations o on o.id = f.organization_id join namespaces n on n.id = r.namespace_id
    join lateral (select q.at, q.report from quarantines q where q.namespace_id = r.namespace_id
      and q.run_id = r.run_id order by q.at desc limit 1) q on true
  where r.status = 5 and ($1::uuid is null or f.organization_id = $1) order by q.at limit $2"""
_WORKERS = """select w.worker_id, w.host, w.pid, w.version, w.epochs, w.started_at, w.drain_asked_at,
    now_ms() - w.heartbeat_at as silent_ms,
    (select count(*) from runs r where r.owner = w.worker_id) as runs,
    (select count(*) from runs r where r.owner = w.worker_id and r.last_event > r.delivered) as behind,
    (select count(*) from sandbox_requests s where s.worker_id = w.worker_id and s.answered_at is null) as questions
  from workers w order by w.started_at, w.worker_id"""
_AUDIT = """select a.at, a.organization_id, a.actor_kind, a.actor_id, a.action, a.target, a.before::text as before,
    a.after::text as after
  from audit_log a where case when $1::uuid is null then a.actor_kind = 'operator' else a.organization_id = $1 end
  order by a.id desc limit $2"""


async def name_operator(connection: asyncpg.Connection, operator: str) -> None:
    """Whatever this connection changes is the operator's act."""
    await connection.execute(
        "select set_config('rewind.actor_kind', 'operator', false), set_config('rewind.actor_id', $1, false)",
        operator,
    )


async def list_organizations(
    connection: asyncpg.Connection, search: str | None, before: OrganizationId | None, limit: int
) -> list[Any]:
    """Newest first."""
    return list(await connection.fetch(_LIST, search, before, limit))


async def ids_of_name(connection: asyncpg.Connection, name: str, limit: int) -> list[OrganizationId]:
    rows = await connection.fetch(
        "select id from organizations where name = $1 order by id limit $2", name, limit
    )
    return [OrganizationId(str(row["id"])) for row in rows]


async def show_organization(connection: asyncpg.Connection, organization: OrganizationId) -> Any | None:
    return await connection.fetchrow(_SHOW, organization)


async def suspend_organization(
    connection: asyncpg.Connection, organization: OrganizationId, reason: str
) -> bool:
    return bool(await connection.fetchval("select suspend_organization($1, $2)", organization, reason))


async def resume_organization(connection: asyncpg.Connection, organization: OrganizationId) -> bool:
    return bool(await connection.fetchval("select resume_organization($1)", organization))


async def list_namespaces(
    connection: asyncpg.Connection, organization: OrganizationId, after: str | None, limit: int
) -> list[Any]:
    return list(await connection.fetch(_NAMESPACES, organization, after, limit))


async def find_namespace(
    connection: asyncpg.Connection, organization: OrganizationId, name: str
) -> NamespaceId | None:
    found = await connection.fetchval(
        "select id from namespaces where organization_id = $1 and name = $2 and deleted_at is null",
        organization,
        name,
    )
    return None if found is None else NamespaceId(str(found))


async def suspend_namespace(connection: asyncpg.Connection, namespace: NamespaceId) -> bool:
    return bool(await connection.fetchval("select suspend_namespace($1)", namespace))


async def resume_namespace(connection: asyncpg.Connection, namespace: NamespaceId) -> bool:
    """False: it is not suspended, or with its organization."""
    done = await connection.fetchval(
        "update namespaces set suspended_at = null where id = $1 and suspended_at is not null "
        "and not suspended_with_organization returning true",
        namespace,
    )
    return bool(done)


async def list_quarantined(
    connection: asyncpg.Connection, organization: OrganizationId | None, limit: int
) -> list[tuple[NamespaceId, RunId, Any]]:
    """Longest first; the report is sealed."""
    rows = await connection.fetch(_QUARANTINED, organization, limit)
    return [(NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"])), row) for row in rows]


async def list_workers(connection: asyncpg.Connection) -> list[Any]:
    return list(await connection.fetch(_WORKERS))


async def ask_to_drain(connection: asyncpg.Connection, worker: WorkerId) -> bool:
    """False: there is no such worker."""
    done = await connection.fetchval(
        "update workers set drain_asked_at = coalesce(drain_asked_at, now_ms()) where worker_id = $1 returning true",
        worker,
    )
    return bool(done)


async def insert_operators_key(
    connection: asyncpg.Connection,
    organization: OrganizationId,
    *,
    id_: str,
    name: str,
    operator: str,
    prefix: str,
    sha256: bytes,
    at: TimeMs,
    expires_at: TimeMs,
) -> None:
    await connection.execute(
        "insert into api_keys (id, organization_id, name, operator, prefix, secret_sha256, scopes, expires_at, "
        "created_at) values ($1, $2, $3, $4, $5, $6, '{runs:read}', $7, $8)",
        id_,
        organization,
        name,
        operator,
        prefix,
        sha256,
        expires_at,
        at,
    )


async def list_audit(
    connection: asyncpg.Connection, organization: OrganizationId | None, limit: int
) -> list[Any]:
    """Newest first: of one organization, or what operators did anywhere."""
    return list(await connection.fetch(_AUDIT, organization, limit))
