"""Queries of people, their sessions, and what they belong to.

A person is found by what it proves (a secret, an address that it signs in with); everything of an organization
is limited to that organization.
"""

from dataclasses import dataclass
from typing import Any

from sandbox.journal.ids import OrganizationId, TimeMs

_PERSON = "id, email, name, password_hash, totp_secret, totp_since, totp_last_step, created_at"
_SESSION = """select s.id, s.person_id, s.method, s.created_at, s.last_used_at, s.expires_at, s.proven_at, s.ip,
  p.email, p.name from sessions s join people p on p.id = s.person_id"""


@dataclass(frozen=True, slots=True)
class PersonRow:
    id: str
    email: str
    name: str
    password_hash: str | None
    totp_secret: bytes | None
    totp_since: TimeMs | None
    totp_last_step: int | None


def _person(row: Any) -> PersonRow | None:
    if row is None:
        return None
    return PersonRow(
        str(row["id"]),
        row["email"],
        row["name"],
        row["password_hash"],
        row["totp_secret"],
        row["totp_since"],
        row["totp_last_step"],
    )


# -- People


async def find_person(connection: Any, *, email: str) -> PersonRow | None:
    return _person(await connection.fetchrow(f"select {_PERSON} from people where email = $1", email))


async def get_person(connection: Any, person: str) -> PersonRow | None:
    return _person(await connection.fetchrow(f"select {_PERSON} from people where id = $1", person))


async def insert_person(
    connection: Any, *, id_: str, email: str, name: str, password_hash: str | None, at: TimeMs
) -> bool:
    """False: there is a person of this address already."""
    made = await connection.fetchval(
        "insert into people (id, email, name, password_hash, created_at) values ($1, $2, $3, $4, $5) "
        "on conflict (email) do nothing returning true",
        id_,
        email,
        name,
        password_hash,
        at,
    )
    return bool(made)


async def set_password(connection: Any, person: str, password_hash: str) -> None:
    await connection.execute("update people set password_hash = $2 where id = $1", person, password_hash)


# -- What was mailed


async def insert_signup(
    connection: Any, *, sha256: bytes, email: str, password_hash: str, organization: str, ttl_ms: int
) -> None:
    await connection.execute("delete from signups where expires_at < now_ms()")
    await connection.execute(
        "insert into signups (secret_sha256, email, password_hash, organization, created_at, expires_at) "
        "values ($1, $2, $3, $4, now_ms(), now_ms() + $5)",
        sha256,
        email,
        password_hash,
        organization,
        ttl_ms,
    )


async def find_signup(connection: Any, sha256: bytes) -> Any | None:
    return await connection.fetchrow(
        "select email, password_hash, organization from signups where secret_sha256 = $1 and expires_at > now_ms()",
        sha256,
    )


async def delete_signups(connection: Any, email: str) -> None:
    """All of an address: it is a person's now."""
    await connection.execute("delete from signups where email = $1", email)


async def insert_reset(connection: Any, *, sha256: bytes, person: str, ttl_ms: int) -> None:
    await connection.execute("delete from resets where person_id = $1 or expires_at < now_ms()", person)
    await connection.execute(
        "insert into resets (secret_sha256, person_id, created_at, expires_at) "
        "values ($1, $2, now_ms(), now_ms() + $3)",
        sha256,
        person,
        ttl_ms,
    )


async def find_reset(connection: Any, sha256: bytes) -> PersonRow | None:
    columns = ", ".join(f"p.{name}" for name in _PERSON.split(", "))
    return _person(
        await connection.fetchrow(
            f"select {columns} from resets r join people p on p.id = r.person_id "
            "where r.secret_sha256 = $1 and r.expires_at > now_ms()",
            sha256,
        )
    )


async def use_reset(connection: Any, sha256: bytes) -> bool:
    used = await connection.fetchval(
        "delete from resets where secret_sha256 = $1 and expires_at > now_ms() returning true", sha256
    )
    return bool(used)


async def insert_mail(connection: Any, *, id_: str, recipient: str, subject: str, body: str) -> None:
    await connection.execute(
        "insert into mails (id, recipient, subject, body, created_at, next_at) "
        "values ($1, $2, $3, $4, now_ms(), now_ms())",
        id_,
        recipient,
        subject,
        body,
    )


# -- Sessions


async def insert_session(
    connection: Any,
    *,
    id_: str,
    person: str,
    sha256: bytes,
    method: str,
    ip: str,
    user_agent: str,
    sso: str | None,
    ttl_ms: int,
) -> None:
    await connection.execute(
        "insert into sessions (id, person_id, secret_sha256, method, ip, user_agent, connection_id, created_at, "
        "last_used_at, expires_at, proven_at) "
        "select $1, $2, $3, $4, $5, $6, $7, at, at, at + $8, at from (select now_ms() as at) now",
        id_,
        person,
        sha256,
        method,
        ip,
        user_agent,
        sso,
        ttl_ms,
    )


async def find_session(connection: Any, sha256: bytes, idle_ms: int) -> Any | None:
    return await connection.fetchrow(
        _SESSION
        + " where s.secret_sha256 = $1 and s.expires_at > now_ms() and s.last_used_at > now_ms() - $2",
        sha256,
        idle_ms,
    )


async def touch_session(connection: Any, session: str, every_ms: int) -> None:
    await connection.execute(
        "update sessions set last_used_at = now_ms() where id = $1 and last_used_at < now_ms() - $2",
        session,
        every_ms,
    )


async def session_is_fresh(connection: Any, session: str, ms: int) -> bool:
    found = await connection.fetchval(
        "select true from sessions where id = $1 and proven_at > now_ms() - $2", session, ms
    )
    return bool(found)


async def list_sessions(connection: Any, person: str, idle_ms: int) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select id, method, ip, user_agent, created_at, last_used_at from sessions where person_id = $1 "
        "and expires_at > now_ms() and last_used_at > now_ms() - $2 order by last_used_at desc limit 200",
        person,
        idle_ms,
    )
    return found


async def delete_session(connection: Any, person: str, session: str) -> bool:
    done = await connection.fetchval(
        "delete from sessions where person_id = $1 and id = $2 returning true", person, session
    )
    return bool(done)


async def delete_sessions(connection: Any, person: str, *, but: str | None = None) -> None:
    await connection.execute(
        "delete from sessions where person_id = $1 and ($2::uuid is null or id <> $2)", person, but
    )


# -- Members and invitations


async def count_owned(connection: Any, person: str) -> int:
    """Organizations that the person owns; nobody else counts them until this transaction ends."""
    await connection.execute("select from people where id = $1 for update", person)
    return int(
        await connection.fetchval(
            "select count(*) from members where person_id = $1 and role = 'owner'", person
        )
    )


async def insert_member(
    connection: Any, organization: OrganizationId, person: str, role: str, at: TimeMs
) -> bool:
    """False: they are one already, and keep their role."""
    made = await connection.fetchval(
        "insert into members (organization_id, person_id, role, created_at) values ($1, $2, $3, $4) "
        "on conflict do nothing returning true",
        organization,
        person,
        role,
        at,
    )
    return bool(made)


async def member_role(
    connection: Any, organization: OrganizationId, person: str, session: str | None = None
) -> Any | None:
    """(role, organization_name, suspended_at, suspended_reason, deleted_at, sso_missing: this session is none of its SSO), or None."""
    return await connection.fetchrow(
        "select m.role, o.name as organization_name, "
        "o.suspended_at, o.suspended_reason, o.deleted_at, "
        "exists (select from organization_domains d where d.organization_id = o.id "
        "and d.domain = split_part(p.email, '@', 2) and d.sso_required_at is not null) "
        "and not exists (select from sessions s join sso_connections used on used.id = s.connection_id "
        "join sso_connections own on own.issuer = used.issuer and own.organization_id = o.id "
        "where s.id = $3) as sso_missing "
        "from members m join organizations o on o.id = m.organization_id join people p on p.id = m.person_id "
        "where m.organization_id = $1 and m.person_id = $2",
        organization,
        person,
        session,
    )


async def organizations_of(connection: Any, person: str) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select o.id, o.name, m.role, o.deleted_at, o.suspended_at, o.suspended_reason from members m join organizations o on o.id = m.organization_id "
        "where m.person_id = $1 order by o.name, o.id limit 500",
        person,
    )
    return found


async def list_members(connection: Any, organization: OrganizationId) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select p.id, p.email, p.name, m.role, m.created_at from members m join people p on p.id = m.person_id "
        "where m.organization_id = $1 order by p.email limit 1000",
        organization,
    )
    return found


async def lock_members(connection: Any, organization: OrganizationId) -> dict[str, str]:
    """The role of each member, which nobody else changes until this transaction ends."""
    await connection.execute("select from organizations where id = $1 for update", organization)
    rows = await connection.fetch(
        "select person_id, role from members where organization_id = $1", organization
    )
    return {str(row["person_id"]): row["role"] for row in rows}


async def set_role(connection: Any, organization: OrganizationId, person: str, role: str) -> None:
    await connection.execute(
        "update members set role = $3 where organization_id = $1 and person_id = $2",
        organization,
        person,
        role,
    )


async def delete_member(connection: Any, organization: OrganizationId, person: str) -> None:
    await connection.execute(
        "delete from members where organization_id = $1 and person_id = $2", organization, person
    )


async def insert_invitation(
    connection: Any,
    organization: OrganizationId,
    *,
    id_: str,
    email: str,
    role: str,
    sha256: bytes,
    by: str,
    ttl_ms: int,
) -> None:
    """An open one for the same address is replaced."""
    await connection.execute(
        "update invitations set settled_at = now_ms() "
        "where organization_id = $1 and email = $2 and settled_at is null",
        organization,
        email,
    )
    await connection.execute(
        "insert into invitations (organization_id, id, email, role, secret_sha256, invited_by, created_at, expires_at) "
        "select $1, $2, $3, $4, $5, $6, at, at + $7 from (select now_ms() as at) now",
        organization,
        id_,
        email,
        role,
        sha256,
        by,
        ttl_ms,
    )


async def find_invitation(connection: Any, sha256: bytes) -> Any | None:
    return await connection.fetchrow(
        "select i.organization_id, i.id, i.email, i.role, o.name as organization_name, p.email as invited_by "
        "from invitations i join organizations o on o.id = i.organization_id left join people p on p.id = i.invited_by "
        "where i.secret_sha256 = $1 and i.settled_at is null and i.expires_at > now_ms()",
        sha256,
    )


async def settle_invitation(connection: Any, organization: OrganizationId, invitation: str) -> bool:
    done = await connection.fetchval(
        "update invitations set settled_at = now_ms() "
        "where organization_id = $1 and id = $2 and settled_at is null returning true",
        organization,
        invitation,
    )
    return bool(done)


async def withdraw_invitations_of(connection: Any, organization: OrganizationId, inviter: str) -> None:
    await connection.execute(
        "update invitations set settled_at = now_ms() "
        "where organization_id = $1 and invited_by = $2 and settled_at is null",
        organization,
        inviter,
    )


async def list_invitations(connection: Any, organization: OrganizationId) -> list[Any]:
    found: list[Any] = await connection.fetch(
        "select id, email, role, created_at, expires_at from invitations "
        "where organization_id = $1 and settled_at is null and expires_at > now_ms() order by email limit 1000",
        organization,
    )
    return found
