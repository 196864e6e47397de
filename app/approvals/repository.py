"""Queries about approvals; every one is keyed by organization or namespace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId, Seq, TimeMs
from sandbox.store.interface import StoredEntry
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.rows import ENTRY_COLUMNS, entry_of, json_of

Place = tuple[TimeMs, RunId, int]
"""Where a page ends: (requested_at, run, call)."""
PENDING, APPROVED, DENIED, EXPIRED, WITHDRAWN = range(5)

_SELECT = """select a.*, s.name as namespace, f.script, f.labels, f.toolset, f.ended_at is not null as ended
from approvals a join namespaces s on s.id = a.namespace_id
join run_facts f on f.namespace_id = a.namespace_id and f.run_id = a.run_id"""
_EARLIER = f"""select n, {ENTRY_COLUMNS} from entries
where namespace_id = $1 and run_id = $2 and type = {EntryType.SCHEDULE_TOOL_CALL:d} and seq < $3
order by seq desc limit $4"""
_OUTCOMES = f"""select n, {ENTRY_COLUMNS} from entries
where namespace_id = $1 and run_id = $2 and type = {EntryType.TOOL_CALL_COMPLETED:d} and n = any ($3)"""


@dataclass(frozen=True, slots=True)
class Approval:
    """A row; what was said stands in the journal."""

    namespace: NamespaceId
    namespace_name: str
    run: RunId
    call: int
    tool: str
    seq: Seq
    requested_at: TimeMs
    expires_at: TimeMs
    status: int
    decided_seq: Seq | None
    decided_at: TimeMs | None
    script: Digest
    labels: dict[str, str]
    toolset: str | None
    ended: bool
    """Its run has."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which approvals; all conditions hold."""

    namespace: NamespaceId | None = None
    run: RunId | None = None
    call: int | None = None
    statuses: Sequence[int] | None = None
    tool: str | None = None
    toolset: str | None = None
    labels: dict[str, str] | None = None
    before: Place | None = None


class ApprovalRepository:
    def __init__(self, pool: asyncpg.Pool, keys: NamespaceKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def find(self, organization: OrganizationId, wanted: Filter, *, limit: int) -> list[Approval]:
        """Newest first, before `wanted.before` (exclusive)."""
        conditions, values = ["a.organization_id = $1"], list[Any]([organization])

        def where(sql: str, *given: Any) -> None:
            if given[0] is not None:
                for value in given:
                    values.append(value)
                    sql = sql.replace("?", f"${len(values)}", 1)
                conditions.append(sql)

        where("a.namespace_id = ?", wanted.namespace)
        where("a.run_id = ?", wanted.run)
        where("a.call = ?", wanted.call)
        if wanted.statuses == (PENDING,):
            conditions.append("a.status = 0")  # as the partial index has it
        else:
            where("a.status = any (?::smallint[])", wanted.statuses)
        where("a.tool = ?", wanted.tool)
        where("f.toolset = ?", wanted.toolset)
        where("f.labels @> ?::jsonb", orjson.dumps(wanted.labels).decode() if wanted.labels else None)
        if wanted.before is not None:
            where("(a.requested_at, a.run_id, a.call) < (?::bigint, ?::uuid, ?::int)", *wanted.before)
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"{_SELECT} where {' and '.join(conditions)}"
                f" order by a.requested_at desc, a.run_id desc, a.call desc limit {int(limit)}",
                *values,
            )
        return [_approval(row) for row in rows]

    async def earlier_calls(
        self, namespace: NamespaceId, approval: Approval, limit: int
    ) -> list[tuple[int, StoredEntry, StoredEntry | None]]:
        """(call, schedule_tool_call, its outcome) of the last calls before this one, oldest first."""
        async with acquired(self._pool) as connection:
            made = await connection.fetch(_EARLIER, namespace, approval.run, approval.seq, limit)
            calls = [row["n"] for row in made]
            done = await connection.fetch(_OUTCOMES, namespace, approval.run, calls) if calls else []
        sealer = (await self._keys.of(namespace)).of(approval.run)
        outcomes = {row["n"]: entry_of(row, sealer) for row in done}
        return [(row["n"], entry_of(row, sealer), outcomes.get(row["n"])) for row in reversed(made)]


def _approval(row: asyncpg.Record) -> Approval:
    return Approval(
        namespace=NamespaceId(str(row["namespace_id"])),
        namespace_name=row["namespace"],
        run=RunId(str(row["run_id"])),
        call=row["call"],
        tool=row["tool"],
        seq=Seq(row["seq"]),
        requested_at=TimeMs(row["requested_at"]),
        expires_at=TimeMs(row["expires_at"]),
        status=row["status"],
        decided_seq=None if row["decided_seq"] is None else Seq(row["decided_seq"]),
        decided_at=None if row["decided_at"] is None else TimeMs(row["decided_at"]),
        script=Digest(row["script"]),
        labels=json_of(row["labels"]) or {},
        toolset=row["toolset"],
        ended=row["ended"],
    )
