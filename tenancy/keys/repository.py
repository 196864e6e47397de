"""Queries of API keys."""

from collections.abc import Sequence
from typing import Any

from sandbox.journal.ids import OrganizationId, TimeMs

COLUMNS = (
    "id, name, prefix, scopes, allow_ips, expires_at, created_at, last_used_at, previous_until, operator"
)


async def insert_key(
    connection: Any,
    organization: OrganizationId,
    *,
    id_: str,
    name: str,
    prefix: str,
    sha256: bytes,
    scopes: Sequence[str],
    allow_ips: Sequence[str],
    expires_at: TimeMs | None,
    at: TimeMs,
) -> Any:
    return await connection.fetchrow(
        "insert into api_keys (id, organization_id, name, prefix, secret_sha256, scopes, allow_ips, expires_at, "
        f"created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning {COLUMNS}",
        id_,
        organization,
        name,
        prefix,
        sha256,
        list(scopes),
        list(allow_ips),
        expires_at,
        at,
    )


async def get_key(connection: Any, organization: OrganizationId, key: str) -> Any | None:
    return await connection.fetchrow(
        f"select {COLUMNS} from api_keys where organization_id = $1 and id = $2 and revoked_at is null",
        organization,
        key,
    )


async def list_keys(
    connection: Any, organization: OrganizationId, *, before: str | None, limit: int
) -> list[Any]:
    """Those that are not revoked, newest first."""
    found: list[Any] = await connection.fetch(
        f"select {COLUMNS} from api_keys where organization_id = $1 and revoked_at is null "
        "and ($2::uuid is null or id < $2) order by id desc limit $3",
        organization,
        before,
        limit,
    )
    return found


async def count_keys(connection: Any, organization: OrganizationId) -> int:
    """How many there are; nobody else makes one until this transaction ends."""
    await connection.execute("select from organizations where id = $1 for update", organization)
    return int(
        await connection.fetchval(
            "select count(*) from api_keys where organization_id = $1 and revoked_at is null", organization
        )
    )


async def rotate_key(
    connection: Any, organization: OrganizationId, key: str, *, prefix: str, sha256: bytes, overlap_ms: int
) -> Any | None:
    """Each former secret works for `overlap_ms` at most: the last two, for whoever was not told of a rotation."""
    return await connection.fetchrow(
        "update api_keys set older_sha256 = case when $5 > 0 and previous_until > now_ms() then previous_sha256 end, "
        "older_until = case when $5 > 0 and previous_until > now_ms() then least(previous_until, now_ms() + $5) end, "
        "previous_sha256 = case when $5 > 0 then secret_sha256 end, "
        "previous_until = case when $5 > 0 then now_ms() + $5 end, secret_sha256 = $4, prefix = $3 "
        f"where organization_id = $1 and id = $2 and revoked_at is null returning {COLUMNS}",
        organization,
        key,
        prefix,
        sha256,
        overlap_ms,
    )


async def revoke_key(connection: Any, organization: OrganizationId, key: str) -> bool:
    done = await connection.fetchval(
        "update api_keys set revoked_at = now_ms() "
        "where organization_id = $1 and id = $2 and revoked_at is null returning true",
        organization,
        key,
    )
    return bool(done)
