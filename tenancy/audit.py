"""The audit log: who did what to what. Written with the act itself, or not at all."""

import json
from dataclasses import dataclass

import asyncpg

from sandbox.journal.entries import Actor
from sandbox.journal.ids import Json, OrganizationId, TimeMs
from tenancy.ids import new_id


@dataclass(frozen=True, slots=True)
class Act:
    """`action` is like `run.release`, `target` names one thing, like `run:<id>`; before and after say what changed."""

    action: str
    target: str
    before: dict[str, Json] | None = None
    after: dict[str, Json] | None = None


async def audit(
    connection: asyncpg.Connection,
    organization: OrganizationId,
    actor: Actor,
    act: Act,
    *,
    ip: str | None = None,
) -> None:
    """Record an act in the connection's transaction."""
    now = TimeMs(await connection.fetchval("select now_ms()"))
    await connection.execute(
        "insert into audit_log (id, organization_id, at, actor_kind, actor_id, action, target, ip, before, after)"
        " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        new_id(now),
        organization,
        now,
        actor.kind,
        actor.id,
        act.action,
        act.target,
        ip,
        _text(act.before),
        _text(act.after),
    )


async def audit_failed_sign_in(
    connection: asyncpg.Connection,
    ip: str,
    method: str,
    *,
    email: str | None = None,
    person: str | None = None,
) -> None:
    """Tell the organizations of the person of this address or id, if there is one."""
    await connection.execute(
        "select record_act(m.organization_id, 'person.sign_in_failed', 'person:' || p.id, null, "
        "jsonb_build_object('method', $3::text), null, $2) from people p join members m on m.person_id = p.id "
        "where p.email = $1 or p.id = $4",
        email,
        ip,
        method,
        person,
    )


def _text(value: dict[str, Json] | None) -> str | None:
    return None if value is None else json.dumps(value)
