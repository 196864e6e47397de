"""Reads of runs and journals; every one is keyed by namespace."""

from typing import Any

import asyncpg
import orjson

from sandbox.journal.canonical import canonical_text
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.interface import PendingRow, RunRecord, RunStatus, StoredEntry
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.rows import (
    ENTRY_COLUMNS,
    PENDING_SHOWN,
    RUN_COLUMNS,
    RUN_TABLES,
    entry_of,
    pending_of,
    record_of,
)

# A wait with a timeout is one thing to whoever reads it: its timer, made just before it, is its `until`.
PENDING_SQL = f"""select p.* from unnest($1::uuid[], $2::uuid[]) q (ns, run) cross join lateral (
  select p.run_id, p.kind, p.n, p.seq, p.since, p.line, p.name, p.gated, p.deferred, p.attempt,
    count(*) over () as total, case when p.kind = 2 then t.due else p.due end as due
  from pending p left join pending t on p.kind = 2 and t.namespace_id = p.namespace_id and t.run_id = p.run_id
    and t.kind = 1 and t.name = 'signal_timeout' and t.seq = p.seq - 1
  where p.namespace_id = q.ns and p.run_id = q.run and p.kind <> 4
    and (p.kind <> 1 or p.name is distinct from 'signal_timeout')
  order by p.since, p.seq limit {PENDING_SHOWN}) p"""

CANDIDATES = 20
"""Entries looked at in one go for one that has a certain field."""
MAX_SEQ = 2**31 - 1


class Reads:
    pool: asyncpg.Pool

    async def get_run(self, namespace: NamespaceId, run: RunId) -> RunRecord | None:
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(
                f"select {RUN_COLUMNS}, r.calls from {RUN_TABLES} where r.namespace_id = $1 and r.run_id = $2",
                namespace,
                run,
            )
            return None if row is None else (await _with_pending(connection, [row]))[0]

    async def list_runs(
        self,
        namespace: NamespaceId,
        *,
        status: RunStatus | None = None,
        labels: dict[str, str] | None = None,
        script: str | None = None,
        workflow: str | None = None,
        toolset: str | None = None,
        parent: RunId | None = None,
        from_ms: TimeMs | None = None,
        to_ms: TimeMs | None = None,
        before: RunId | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """Newest first, before the run `before` (exclusive); labels all match. At most `limit` runs."""
        conditions, values = ["f.namespace_id = $1"], [namespace]

        def where(sql: str, value: Any) -> None:
            if value is not None:
                values.append(value)
                conditions.append(sql.replace("?", f"${len(values)}"))

        where("f.status = ?", status)
        where("f.script = ?", script)
        where("f.workflow = ?", workflow)
        where("(f.toolset = ? or f.toolset || '@' || f.toolset_digest = ?)", toolset)
        where("f.parent ->> 'run' = ?::text", parent)
        where("f.started_at >= ?", from_ms)
        where("f.started_at < ?", to_ms)
        where("f.run_id < ?", before)
        where("f.labels @> ?::jsonb", orjson.dumps(labels).decode() if labels else None)
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                f"select {RUN_COLUMNS}, r.calls from {RUN_TABLES} where {' and '.join(conditions)}"
                f" order by f.run_id desc limit {int(limit)}",
                *values,
            )
            return await _with_pending(connection, rows)

    async def find_entry(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, n: int | None = None
    ) -> StoredEntry | None:
        """The last entry of that type, or the one about call `n`."""
        if n is not None:
            return await self.find_entry_with(namespace, run, entry_type, "call", n)
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(
                f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and type = $3"
                " order by seq desc limit 1",
                namespace,
                run,
                entry_type,
            )
            return None if row is None else entry_of(row)

    async def find_entry_with(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, field: str, value: str | int
    ) -> StoredEntry | None:
        """The last entry of that type whose own `field` has that value.

        Postgres only finds the bytes: it cannot read JSON that holds U+0000, which values may. The values in
        an entry may hold the same bytes, so what it finds is read here.
        """
        text = canonical_text({field: value})[1:-1]
        before = MAX_SEQ
        while True:
            async with acquired(self.pool) as connection:
                rows = await connection.fetch(
                    f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and type = $3"
                    " and seq < $4 and position($5::bytea in body) > 0 order by seq desc limit $6",
                    namespace,
                    run,
                    entry_type,
                    before,
                    text,
                    CANDIDATES,
                )
            for row in rows:
                if orjson.loads(row["body"]).get(field) == value:
                    return entry_of(row)
            if len(rows) < CANDIDATES:
                return None
            before = rows[-1]["seq"]

    async def _read_entries(
        self, namespace: NamespaceId, run: RunId, after: Seq, limit: int
    ) -> list[StoredEntry]:
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and seq > $3"
                " order by seq limit $4",
                namespace,
                run,
                after,
                limit,
            )
            return [entry_of(row) for row in rows]


async def _with_pending(connection: Any, rows: list[Any]) -> list[RunRecord]:
    active = [row for row in rows if row["ended_at"] is None]
    pending: dict[str, list[PendingRow]] = {}
    totals: dict[str, int] = {}
    if active:
        found = await connection.fetch(
            PENDING_SQL, [row["namespace_id"] for row in active], [row["run_id"] for row in active]
        )
        for row in found:
            run = str(row["run_id"])
            pending.setdefault(run, []).append(pending_of(row))
            totals[run] = row["total"]
    records = []
    for row in rows:
        run = str(row["run_id"])
        records.append(record_of(row, tuple(pending.get(run, ())), totals.get(run, 0), row["calls"]))
    return records
