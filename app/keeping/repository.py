"""Redaction and deletion of one run, each with its audit in the same transaction; the role is rewind_retention."""

from dataclasses import dataclass

import asyncpg

from app.errors import RunActive
from sandbox.journal.codec import value_in
from sandbox.journal.entries import Actor
from sandbox.journal.ids import Json, NamespaceId, OrganizationId, RunId, Seq, Sha256
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.retention import Retention
from sandbox.store.postgres.rows import ENTRY_COLUMNS, entry_of
from sandbox.store.postgres.values import VALUE_TYPES
from sandbox.store.redaction import Redacted, redacted
from sandbox.store.sealing import Sealer, entry_place
from tenancy.audit import Act, audit
from tenancy.errors import NotFound

ENTRIES_AT_ONCE = 1_000
RESENT_AFTER_MS = 2_000
"""Deliveries of a message that is made anew wait so long for it."""

_LOCK = "select from runs where namespace_id = $1 and run_id = $2 for update"
_RUN = "select ended_at is not null as ended from run_facts where namespace_id = $1 and run_id = $2"
_FORKS = "select forks_being_made($1, $2)"
_ENTRY = f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and seq = $3"
_REWRITE = "update entries set body = $4 where namespace_id = $1 and run_id = $2 and seq = $3"
_PAGE = (
    f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and seq > $3"
    " and type = any($4::smallint[]) order by seq limit $5"
)
_UNNAME = "delete from value_refs where namespace_id = $1 and sha256 = $2 and run_id = $3"
_RETELL = (
    "update events set body = null where namespace_id = $1 and run_id = $2 and body is not null returning id"
)
_WAIT = """update deliveries set next_at = now_ms() + $3::bigint
  where namespace_id = $1 and event_id = any($2::uuid[]) and next_at is not null and lease_until is null"""
_COPIES = (
    "delete from replays where namespace_id = $1 and run_id = $2",
    "delete from quarantines where namespace_id = $1 and run_id = $2",
)
_FORGET_PROGRESS = "update run_facts set progress = null where namespace_id = $1 and run_id = $2"


@dataclass(frozen=True, slots=True)
class Doer:
    """Who does it, and why."""

    organization: OrganizationId
    actor: Actor
    ip: str
    reason: str | None


class KeepingRepository:
    def __init__(self, retention: Retention, keys: NamespaceKeys) -> None:
        self._retention = retention
        self._keys = keys

    async def delete(self, namespace: NamespaceId, run: RunId, doer: Doer) -> bool:
        """False: the run is gone, has not ended and been sealed, or its end is not told yet. Errors: RunActive."""

        async def delete(connection: asyncpg.Connection) -> bool:
            await _lock(connection, namespace, run, "deleted")
            deleted: int = await connection.fetchval("select delete_runs($1, $2)", namespace, [run])
            if deleted:
                act = Act("run.delete", f"run:{run}")
                await audit(connection, doer.organization, doer.actor, act, ip=doer.ip)
            return bool(deleted)

        return await self._retention.transaction(delete)

    async def redact(self, namespace: NamespaceId, run: RunId, seq: Seq, field: str, doer: Doer) -> Redacted:
        """Take a value out of the journal of a sealed run, and out of what was made of it.

        Errors: NotFound, RunActive, NothingToRedact, DataErased, Unavailable.
        """
        sealer = (await self._keys.of(namespace)).of(run)

        async def redact(connection: asyncpg.Connection) -> Redacted:
            await _lock(connection, namespace, run, "redacted")
            facts = await connection.fetchrow(_RUN, namespace, run)
            if facts is None:
                raise NotFound(f"There is no run {run} in this namespace.")
            if not facts["ended"]:
                raise RunActive("The run has not ended: only the values of ended runs can be redacted.")
            row = await connection.fetchrow(_ENTRY, namespace, run, seq)
            if row is None:
                raise NotFound(f"The run's journal has no entry {seq}.")
            done = redacted(entry_of(row, sealer), field)
            if done.changed:
                await connection.execute(
                    _REWRITE, namespace, run, seq, sealer.seal(done.entry.body, entry_place(done.entry.type))
                )
                await _forget(connection, namespace, run, done.sha256, sealer, logged=field == "values")
                changed: dict[str, Json] = {
                    "seq": seq,
                    "field": field,
                    "sha256": done.sha256,
                    "reason": doer.reason,
                }
                act = Act("run.redact", f"run:{run}", after=changed)
                await audit(connection, doer.organization, doer.actor, act, ip=doer.ip)
            return done

        return await self._retention.transaction(redact)


async def _lock(connection: asyncpg.Connection, namespace: NamespaceId, run: RunId, what: str) -> None:
    """From here on no fork of the run is started before this transaction ends. Errors: RunActive if one is being made."""
    await connection.execute(_LOCK, namespace, run)
    if forks := await connection.fetch(_FORKS, namespace, run):
        raise RunActive(
            f"The run {forks[0][0]} is being made as a fork of this one, which cannot be {what} before that: try again "
            "in a moment; or, if the fork is quarantined, release or abandon it first."
        )


async def _forget(
    connection: asyncpg.Connection,
    namespace: NamespaceId,
    run: RunId,
    sha256: Sha256,
    sealer: Sealer,
    *,
    logged: bool,
) -> None:
    """What else holds the value because of this entry: the blob's name, messages, stored replays and reports."""
    if not await _named_elsewhere(connection, namespace, run, sha256, sealer):
        await connection.execute(_UNNAME, namespace, bytes.fromhex(sha256), run)
    told = [row["id"] for row in await connection.fetch(_RETELL, namespace, run)]
    if told:
        await connection.execute(_WAIT, namespace, told, RESENT_AFTER_MS)
    for statement in _COPIES:
        await connection.execute(statement, namespace, run)
    if logged:
        await connection.execute(_FORGET_PROGRESS, namespace, run)


async def _named_elsewhere(
    connection: asyncpg.Connection, namespace: NamespaceId, run: RunId, sha256: Sha256, sealer: Sealer
) -> bool:
    """Whether another entry of the run still has the value."""
    after = -1
    while rows := await connection.fetch(
        _PAGE, namespace, run, after, [int(type_) for type_ in VALUE_TYPES], ENTRIES_AT_ONCE
    ):
        for row in rows:
            value = value_in(entry_of(row, sealer).body)
            if value is not None and value.sha256 == sha256 and not value.redacted:
                return True
        after = rows[-1]["seq"]
    return False
