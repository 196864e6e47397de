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


def _text(value: dict[str, Json] | None) -> str | None:
    return None if value is None else json.dumps(value)
