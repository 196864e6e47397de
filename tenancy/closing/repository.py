"""Queries of an organization that ends, and of everything that it takes along in an export."""

from collections.abc import AsyncIterator
from typing import Any

from sandbox.journal.ids import NamespaceId, OrganizationId

PAGE = 500
FIRST_ID = "00000000-0000-0000-0000-000000000000"

_GONE = (
    "update api_keys set revoked_at = now_ms() where organization_id = $1 and revoked_at is null",
    "update tokens set revoked_at = now_ms() where organization_id = $1 and revoked_at is null",
    "delete from secrets where organization_id = $1",
    "delete from deliveries where organization_id = $1",
    "delete from webhook_endpoints where organization_id = $1",
    "delete from sessions where connection_id in (select id from sso_connections where organization_id = $1)",
    "delete from sso_connections where organization_id = $1",
    "delete from organization_domains where organization_id = $1",
    "delete from invitations where organization_id = $1",
    "delete from members where organization_id = $1",
)
"""What is left is what nobody can read (sealed under destroyed keys), and the audit log."""

EXPORTED = {
    "member": "select p.id as key, p.email, p.name, m.role, m.created_at from members m "
    "join people p on p.id = m.person_id where m.organization_id = $1 and p.id > $2 order by p.id limit $3",
    "invitation": "select id as key, email, role, created_at, expires_at from invitations "
    "where organization_id = $1 and settled_at is null and id > $2 order by id limit $3",
    "sso_connection": "select id as key, name, issuer, client_id, join_role, created_at from sso_connections "
    "where organization_id = $1 and id > $2 order by id limit $3",
    "api_key": "select id as key, name, prefix, scopes, allow_ips, created_at, expires_at, revoked_at, last_used_at "
    "from api_keys where organization_id = $1 and id > $2 order by id limit $3",
    "token": "select t.id as key, n.name as namespace, t.name, t.prefix, t.scopes, t.narrow, t.created_at, "
    "t.expires_at, t.revoked_at, t.last_used_at from tokens t join namespaces n on n.id = t.namespace_id "
    "where t.organization_id = $1 and t.id > $2 order by t.id limit $3",
    "toolset": "select t.id as key, t.name, t.digest, t.disabled, t.updated_at, v.definition from toolsets t "
    "join toolset_versions v on v.organization_id = t.organization_id and v.name = t.name and v.digest = t.digest "
    "where t.organization_id = $1 and t.id > $2 order by t.id limit $3",
    "webhook_endpoint": "select id as key, url, events, namespaces, labels, created_at, disabled_at, disabled_reason "
    "from webhook_endpoints where organization_id = $1 and id > $2 order by id limit $3",
    "namespace": "select id as key, name, labels, created_at, suspended_at from namespaces "
    "where organization_id = $1 and id > $2 order by id limit $3",
    "audit": "select id as key, at, actor_kind, actor_id, action, target, ip, before, after from audit_log "
    "where organization_id = $1 and id > $2 order by id limit $3",
}
"""Every kind of line, without a secret among its columns."""


async def close(connection: Any, organization: OrganizationId) -> bool:
    done = await connection.fetchval(
        "update organizations set deleted_at = now_ms() where id = $1 and deleted_at is null returning true",
        organization,
    )
    return bool(done)


async def restore(connection: Any, organization: OrganizationId, person: str) -> bool:
    """False: its purge has begun, it is not closed, or the person is no owner of it."""
    done = await connection.fetchval(
        "update organizations o set deleted_at = null where o.id = $1 and o.deleted_at is not null "
        "and o.purging_at is null and o.purged_at is null and exists (select from members m where m.organization_id = o.id "
        "and m.person_id = $2 and m.role = 'owner') returning true",
        organization,
        person,
    )
    return bool(done)


async def owners(connection: Any, organization: OrganizationId) -> list[str]:
    rows = await connection.fetch(
        "select p.email from members m join people p on p.id = m.person_id "
        "where m.organization_id = $1 and m.role = 'owner' order by 1",
        organization,
    )
    return [row["email"] for row in rows]


async def due(connection: Any, grace_ms: int, limit: int) -> list[OrganizationId]:
    rows = await connection.fetch(
        "select id from organizations where deleted_at < now_ms() - $1 and purged_at is null "
        "order by deleted_at limit $2",
        grace_ms,
        limit,
    )
    return [OrganizationId(str(row["id"])) for row in rows]


async def begin_purge(connection: Any, organization: OrganizationId, grace_ms: int) -> bool:
    """From now on nobody restores it. False: it was restored meanwhile, or somebody else has purged it."""
    begun = await connection.fetchval(
        "update organizations set purging_at = coalesce(purging_at, now_ms()) where id = $1 "
        "and deleted_at < now_ms() - $2 and purged_at is null returning true",
        organization,
        grace_ms,
    )
    return bool(begun)


async def readable_namespaces(connection: Any, organization: OrganizationId) -> list[NamespaceId]:
    """Those whose keys are not destroyed, some of them."""
    rows = await connection.fetch(
        "select n.id from namespaces n where n.organization_id = $1 and not exists "
        "(select from namespace_keys k where k.namespace_id = n.id and k.wrapped is null) order by n.id limit $2",
        organization,
        PAGE,
    )
    return [NamespaceId(str(row["id"])) for row in rows]


async def purge(connection: Any, organization: OrganizationId) -> bool:
    """False: somebody else has purged it."""
    gone = await connection.fetchval(
        "update organizations set purged_at = now_ms() where id = $1 and purging_at is not null "
        "and purged_at is null returning true",
        organization,
    )
    if gone:
        for statement in _GONE:
            await connection.execute(statement, organization)
    return bool(gone)


async def exported(pool_page: Any, organization: OrganizationId) -> AsyncIterator[tuple[str, Any]]:
    """(kind, row) of everything, read in pages: no connection is held while a slow reader reads.

    `pool_page(sql, *values)` runs one query.
    """
    for kind, sql in EXPORTED.items():
        after = FIRST_ID
        while True:
            rows = await pool_page(sql, organization, after, PAGE)
            for row in rows:
                yield kind, row
            if len(rows) < PAGE:
                break
            after = str(rows[-1]["key"])
