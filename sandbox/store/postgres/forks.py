"""What a fork reuses, appended by its owner in chunks; and what a run says of itself while it is being made."""

from dataclasses import replace
from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import RunId, Seq, TimeMs
from sandbox.store.forks import ForkAppend, ForkDone
from sandbox.store.interface import CommandVerdict, ForkOrder
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.rows import json_of, signal_number
from sandbox.store.postgres.values import big_value, refer
from sandbox.store.sealing import FORK_PLACE, PROGRESS_PLACE, Sealer, entry_place

APPEND_SQL = "select appended, next, at from append_fork(" + ",".join(f"${n}" for n in range(1, 13)) + ")"
HELD_SQL = "select record_held($1, $2, $3)"
FINISH_SQL = "select finish_fork(" + ",".join(f"${n}" for n in range(1, 28)) + ")"


async def append_fork(pool: asyncpg.Pool, keys: NamespaceKeys, append: ForkAppend) -> CommandVerdict:
    """Append a chunk, and with the last one all that makes the run an ordinary one, in one transaction.

    Errors: Unavailable when the database was lost: the chunk may or may not be recorded. DataErased.
    """
    seal = (await keys.of(append.namespace)).of(append.run)
    async with acquired(pool) as connection, connection.transaction():
        parts = _parts(append)
        row = await connection.fetchrow(APPEND_SQL, *_columns(parts[0], seal))
        if row["appended"] and len(parts) > 1 and append.done is not None:
            known = [ident for ident, _ in append.done.signals]
            first = await connection.fetchval(HELD_SQL, append.namespace, append.run, known)
            row = await connection.fetchrow(APPEND_SQL, *_columns(replace(parts[1], first=Seq(first)), seal))
        if not row["appended"]:
            return CommandVerdict(appended=False, first_seq=Seq(0), next_seq=Seq(0), time=TimeMs(row["at"]))
        named = [big_value(entry.type, entry.body) for entry in append.entries]
        await refer(
            connection, [(append.namespace, sha256, append.run) for sha256 in named if sha256 is not None]
        )
        after = row["next"]
        if append.done is not None:
            after = await connection.fetchval(FINISH_SQL, *_finish(append, append.done, seal))
        return CommandVerdict(
            appended=True, first_seq=append.first, next_seq=Seq(after), time=TimeMs(row["at"])
        )


def _parts(append: ForkAppend) -> list[ForkAppend]:
    """The chunk, and its last entry by itself when that ends the run: what was held stands before the end."""
    if append.done is None or append.done.ends is None:
        return [append]
    return [replace(append, entries=append.entries[:-1]), replace(append, entries=append.entries[-1:])]


def fork_order(parent: str | None, fork: str | None) -> ForkOrder:
    asked: dict[str, Any] = json_of(fork) or {}
    at = asked.get("at")
    return ForkOrder(RunId(json_of(parent)["run"]), None if at is None else Seq(at))


def _columns(append: ForkAppend, seal: Sealer) -> list[object]:
    return [
        append.worker,
        append.namespace,
        append.run,
        append.owner_epoch,
        append.first,
        [entry.type for entry in append.entries],
        [entry.time for entry in append.entries],
        [entry.cause for entry in append.entries],
        [entry.fire_at for entry in append.entries],
        [entry.delay_ms for entry in append.entries],
        [entry.n if entry.signal_id is None else signal_number(entry.signal_id) for entry in append.entries],
        [seal.seal(entry.body, entry_place(entry.type)) for entry in append.entries],
    ]


def _finish(append: ForkAppend, done: ForkDone, seal: Sealer) -> list[object]:
    return [
        append.namespace,
        append.run,
        seal.seal(orjson.dumps(done.report), FORK_PLACE),
        done.delivered,
        done.last_event,
        done.commands,
        done.calls,
        done.cpu_us,
        done.activations,
        done.cancel_seq,
        done.ends,
        None if done.progress is None else seal.seal(done.progress, PROGRESS_PLACE),
        done.organization,
        done.toolset,
        [ident for ident, _ in done.signals],
        [seq for _, seq in done.signals],
        [row.kind for row in done.pending],
        [row.n for row in done.pending],
        [row.seq for row in done.pending],
        [row.line for row in done.pending],
        [row.name for row in done.pending],
        [row.route for row in done.pending],
        [row.idempotent for row in done.pending],
        [row.gated for row in done.pending],
        [row.timeout_ms for row in done.pending],
        [row.expires_ms for row in done.pending],
        [row.pace for row in done.pending],
    ]
