"""Queries of how people prove who they are: steps of a sign-in, accounts at providers, passkeys, recovery codes."""

import json
from dataclasses import dataclass
from typing import Any

from sandbox.journal.ids import OrganizationId

_CONNECTION = (
    "select c.id, c.organization_id, o.name as organization_name, c.name, c.issuer, c.client_id, c.client_secret, "
    "c.join_role, c.created_at from sso_connections c join organizations o on o.id = c.organization_id "
)


@dataclass(frozen=True, slots=True)
class Step:
    person: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    id: str
    organization: OrganizationId
    organization_name: str
    name: str
    issuer: str
    client_id: str
    client_secret: bytes | None
    join_role: str | None


# -- Steps


async def insert_step(
    connection: Any, sha256: bytes, kind: str, *, person: str | None, body: dict[str, Any], ttl_ms: int
) -> None:
    await connection.execute("delete from sign_in_steps where expires_at < now_ms()")
    await connection.execute(
        "insert into sign_in_steps (secret_sha256, kind, person_id, body, expires_at) "
        "values ($1, $2, $3, $4, now_ms() + $5)",
        sha256,
        kind,
        person,
        json.dumps(body),
        ttl_ms,
    )


async def find_step(connection: Any, sha256: bytes, kind: str) -> Step | None:
    return _step(
        await connection.fetchrow(
            "select person_id, body from sign_in_steps where secret_sha256 = $1 and kind = $2 "
            "and expires_at > now_ms()",
            sha256,
            kind,
        )
    )


async def take_step(connection: Any, sha256: bytes, kind: str) -> Step | None:
    """It is gone with this: no step is taken twice."""
    return _step(
        await connection.fetchrow(
            "delete from sign_in_steps where secret_sha256 = $1 and kind = $2 and expires_at > now_ms() "
            "returning person_id, body",
            sha256,
            kind,
        )
    )


async def end_steps(connection: Any, person: str) -> None:
    """Sign-ins that somebody is in the middle of: what was proven for them counts no more."""
    await connection.execute("delete from sign_in_steps where person_id = $1", person)


def _step(row: Any) -> Step | None:
    if row is None:
        return None
    person = row["person_id"]
    return Step(None if person is None else str(person), json.loads(row["body"]))


# -- Accounts at providers


async def find_identity(connection: Any, issuer: str, subject: str) -> str | None:
    found = await connection.fetchval(
        "select person_id from identities where issuer = $1 and subject = $2", issuer, subject
    )
    return None if found is None else str(found)


async def insert_identity(connection: Any, issuer: str, subject: str, person: str) -> bool:
    """False: the account is somebody's already."""
    made = await connection.fetchval(
        "insert into identities (issuer, subject, person_id, created_at) values ($1, $2, $3, now_ms()) "
        "on conflict (issuer, subject) do nothing returning true",
        issuer,
        subject,
        person,
    )
    return bool(made)


async def list_identities(connection: Any, person: str) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select issuer, subject, created_at from identities where person_id = $1 order by created_at limit 100",
        person,
    )
    return found


async def delete_identity(connection: Any, person: str, issuer: str, subject: str) -> bool:
    done = await connection.fetchval(
        "delete from identities where person_id = $1 and issuer = $2 and subject = $3 returning true",
        person,
        issuer,
        subject,
    )
    return bool(done)


# -- Providers of organizations


async def find_connection(connection: Any, id_: str) -> ConnectionRow | None:
    """By the id in its redirect URI: whoever signs in is nobody yet."""
    rows = _connections(await connection.fetch(_CONNECTION + "where c.id = $1 and o.deleted_at is null", id_))
    return rows[0] if rows else None


async def connections_for(connection: Any, domain: str) -> list[ConnectionRow]:
    """Those of organizations that have proven the domain."""
    return _connections(
        await connection.fetch(
            _CONNECTION + "join organization_domains d on d.organization_id = c.organization_id "
            "where d.domain = $1 and d.proven_at is not null and o.deleted_at is null "
            "order by o.name, c.name limit 50",
            domain,
        )
    )


async def list_connections(connection: Any, organization: OrganizationId) -> list[ConnectionRow]:
    return _connections(
        await connection.fetch(
            _CONNECTION + "where c.organization_id = $1 order by c.created_at", organization
        )
    )


async def insert_connection(connection: Any, row: ConnectionRow) -> None:
    await connection.execute(
        "insert into sso_connections (organization_id, id, name, issuer, client_id, client_secret, join_role, "
        "created_at) values ($1, $2, $3, $4, $5, $6, $7, now_ms())",
        row.organization,
        row.id,
        row.name,
        row.issuer,
        row.client_id,
        row.client_secret,
        row.join_role,
    )


async def delete_connection(connection: Any, organization: OrganizationId, id_: str) -> bool:
    """Sessions that it began end with it."""
    done = await connection.fetchval(
        "delete from sso_connections where organization_id = $1 and id = $2 returning true",
        organization,
        id_,
    )
    if done:
        await connection.execute("delete from sessions where connection_id = $1", id_)
    return bool(done)


def _connections(rows: Any) -> list[ConnectionRow]:
    return [
        ConnectionRow(
            str(row["id"]),
            OrganizationId(str(row["organization_id"])),
            row["organization_name"],
            row["name"],
            row["issuer"],
            row["client_id"],
            row["client_secret"],
            row["join_role"],
        )
        for row in rows
    ]


async def has_proven(connection: Any, organization: OrganizationId, domain: str) -> bool:
    found = await connection.fetchval(
        "select true from organization_domains where organization_id = $1 and domain = $2 "
        "and proven_at is not null",
        organization,
        domain,
    )
    return bool(found)


async def open_invitation(connection: Any, organization: OrganizationId, email: str) -> Any | None:
    return await connection.fetchrow(
        "select id, role from invitations where organization_id = $1 and email = $2 and settled_at is null "
        "and expires_at > now_ms()",
        organization,
        email,
    )


async def requiring_sso(connection: Any, person: str, domain: str) -> list[Any]:
    """(name, role) of each organization of the person whose members with this domain sign in by SSO."""
    found: list[Any] = await connection.fetch(
        "select o.name, m.role from members m join organizations o on o.id = m.organization_id "
        "join organization_domains d on d.organization_id = m.organization_id "
        "where m.person_id = $1 and d.domain = $2 and d.sso_required_at is not null and o.deleted_at is null "
        "order by o.name limit 100",
        person,
        domain,
    )
    return found


# -- Domains of organizations


async def list_domains(connection: Any, organization: OrganizationId) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select domain, token, proven_at, sso_required_at from organization_domains "
        "where organization_id = $1 order by domain",
        organization,
    )
    return found


async def insert_domain(connection: Any, organization: OrganizationId, domain: str, token: str) -> None:
    """One that is there already keeps its token and what was proven with it."""
    await connection.execute(
        "insert into organization_domains (organization_id, domain, token, created_at) "
        "values ($1, $2, $3, now_ms()) on conflict do nothing",
        organization,
        domain,
        token,
    )


async def prove_domain(connection: Any, organization: OrganizationId, domain: str) -> None:
    await connection.execute(
        "update organization_domains set proven_at = coalesce(proven_at, now_ms()) "
        "where organization_id = $1 and domain = $2",
        organization,
        domain,
    )


async def require_domain(connection: Any, organization: OrganizationId, domain: str, *, on: bool) -> None:
    await connection.execute(
        "update organization_domains set sso_required_at = case when $3 then coalesce(sso_required_at, now_ms()) end "
        "where organization_id = $1 and domain = $2 and (proven_at is not null or not $3)",
        organization,
        domain,
        on,
    )


async def delete_domain(connection: Any, organization: OrganizationId, domain: str) -> bool:
    done = await connection.fetchval(
        "delete from organization_domains where organization_id = $1 and domain = $2 returning true",
        organization,
        domain,
    )
    return bool(done)


# -- Codes of an app, and recovery codes


async def begin_totp(connection: Any, person: str, sealed: bytes) -> bool:
    """False: one is in force."""
    done = await connection.fetchval(
        "update people set totp_secret = $2, totp_last_step = null where id = $1 and totp_since is null "
        "returning true",
        person,
        sealed,
    )
    return bool(done)


async def confirm_totp(connection: Any, person: str, step: int) -> None:
    await connection.execute(
        "update people set totp_since = now_ms(), totp_last_step = $2 where id = $1 and totp_since is null",
        person,
        step,
    )


async def use_totp_step(connection: Any, person: str, step: int) -> bool:
    """False: this step, or a later one, has been used."""
    done = await connection.fetchval(
        "update people set totp_last_step = $2 where id = $1 "
        "and (totp_last_step is null or totp_last_step < $2) returning true",
        person,
        step,
    )
    return bool(done)


async def end_totp(connection: Any, person: str) -> None:
    await connection.execute(
        "update people set totp_secret = null, totp_since = null, totp_last_step = null where id = $1", person
    )
    await connection.execute("delete from recovery_codes where person_id = $1", person)


async def replace_recovery_codes(connection: Any, person: str, digests: list[bytes]) -> None:
    await connection.execute("delete from recovery_codes where person_id = $1", person)
    await connection.execute(
        "insert into recovery_codes (person_id, code_sha256, created_at) "
        "select $1, code, now_ms() from unnest($2::bytea[]) code",
        person,
        digests,
    )


async def use_recovery_code(connection: Any, person: str, sha256: bytes) -> bool:
    done = await connection.fetchval(
        "delete from recovery_codes where person_id = $1 and code_sha256 = $2 returning true", person, sha256
    )
    return bool(done)


async def count_recovery_codes(connection: Any, person: str) -> int:
    found = await connection.fetchval("select count(*) from recovery_codes where person_id = $1", person)
    return int(found)


# -- Passkeys


async def list_passkeys(connection: Any, person: str) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select credential_id, name, created_at, last_used_at from passkeys where person_id = $1 order by created_at",
        person,
    )
    return found


async def find_passkey(connection: Any, credential_id: bytes) -> Any | None:
    return await connection.fetchrow(
        "select person_id, public_key, sign_count from passkeys where credential_id = $1 for update",
        credential_id,
    )


async def insert_passkey(
    connection: Any, *, credential_id: bytes, person: str, name: str, public_key: bytes, sign_count: int
) -> bool:
    """False: it is registered already."""
    made = await connection.fetchval(
        "insert into passkeys (credential_id, person_id, name, public_key, sign_count, created_at) "
        "values ($1, $2, $3, $4, $5, now_ms()) on conflict do nothing returning true",
        credential_id,
        person,
        name,
        public_key,
        sign_count,
    )
    return bool(made)


async def passkey_used(connection: Any, credential_id: bytes, sign_count: int) -> None:
    await connection.execute(
        "update passkeys set sign_count = $2, last_used_at = now_ms() where credential_id = $1",
        credential_id,
        sign_count,
    )


async def delete_passkey(connection: Any, person: str, credential_id: bytes) -> bool:
    done = await connection.fetchval(
        "delete from passkeys where person_id = $1 and credential_id = $2 returning true",
        person,
        credential_id,
    )
    return bool(done)
