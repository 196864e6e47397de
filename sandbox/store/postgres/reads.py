"""Reads of runs and journals; every one is keyed by namespace."""

from typing import Any

import asyncpg
import orjson

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import NamespaceId, RunId, Seq
from sandbox.store.interface import PendingRow, RunRecord, StoredEntry
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.lists import RunFilter
from sandbox.store.postgres.rows import (
    ENTRY_COLUMNS,
    PENDING_SHOWN,
    RUN_COLUMNS,
    RUN_TABLES,
    entry_of,
    pending_of,
    record_of,
    signal_number,
)
from sandbox.store.sealing import FORK_PLACE, PROGRESS_PLACE, REPORT_PLACE

# A wait with a timeout is one thing to whoever reads it: its timer, made just before it, is its `until`.
PENDING_SQL = f"""select p.* from unnest($1::uuid[], $2::uuid[]) q (ns, run) cross join lateral (
  select p.run_id, p.kind, p.n, p.seq, p.since, p.line, p.name, p.gated, p.deferred, p.attempt,
    case when p.kind = 0 and p.lease_until is null then p.claim_id end as child,
    count(*) over () as total, case when p.kind = 2 then t.due else p.due end as due
  from pending p left join pending t on p.kind = 2 and t.namespace_id = p.namespace_id and t.run_id = p.run_id
    and t.kind = 1 and t.name = 'signal_timeout' and t.seq = p.seq - 1
  where p.namespace_id = q.ns and p.run_id = q.run and p.kind not in (4, 6)
    and (p.kind <> 1 or p.name is distinct from 'signal_timeout')
  order by p.since, p.seq limit {PENDING_SHOWN}) p"""

REPORT_SQL = "select report from quarantines where namespace_id = $1 and run_id = $2 order by at desc limit 1"


EVERY_RUN = RunFilter()

SAME_NUMBER_MAX = 1_000
"""Signals looked at for one id: those whose ids have the same number, which none but a made-up set has."""


class Reads:
    pool: asyncpg.Pool
    keys: NamespaceKeys

    async def get_run(self, namespace: NamespaceId, run: RunId) -> RunRecord | None:
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(
                f"select {RUN_COLUMNS}, r.calls from {RUN_TABLES} where r.namespace_id = $1 and r.run_id = $2",
                namespace,
                run,
            )
            if row is None:
                return None
            pending = await _pending_of(connection, [row])
        return (await self._records([row], pending))[0]

    async def list_runs(
        self,
        namespace: NamespaceId,
        *,
        matching: RunFilter = EVERY_RUN,
        before: RunId | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """Newest first, before the run `before` (exclusive). At most `limit` runs."""
        where, values = matching.where(namespace, before)
        # Planned for these very values: a rare label is looked up, a frequent one met on the way.
        async with acquired(self.pool) as connection, connection.transaction():
            await connection.execute("set local plan_cache_mode = force_custom_plan")
            found = await connection.fetch(
                f"select f.run_id from run_facts f where {where} order by f.run_id desc limit {int(limit)}",
                *values,
            )
            rows = await connection.fetch(
                f"select {RUN_COLUMNS}, r.calls from {RUN_TABLES}"
                " where f.namespace_id = $1 and f.run_id = any($2::uuid[]) order by f.run_id desc",
                namespace,
                [row["run_id"] for row in found],
            )
            pending = await _pending_of(connection, rows)
        return await self._records(rows, pending)

    async def cancellable(
        self, namespace: NamespaceId, matching: RunFilter, before: RunId, limit: int
    ) -> list[RunId]:
        """Runs that go on and that nobody has cancelled yet, newest first, before the run `before`."""
        where, values = matching.where(namespace, before)
        async with acquired(self.pool) as connection, connection.transaction():
            await connection.execute("set local plan_cache_mode = force_custom_plan")
            rows = await connection.fetch(
                f"select f.run_id from run_facts f join runs r on r.namespace_id = f.namespace_id"
                f" and r.run_id = f.run_id where {where} and f.ended_at is null and r.cancel_seq is null"
                f" order by f.run_id desc limit {int(limit)}",
                *values,
            )
        return [RunId(str(row["run_id"])) for row in rows]

    async def count_cancellable(self, namespace: NamespaceId, matching: RunFilter, before: RunId) -> int:
        where, values = matching.where(namespace, before)
        async with acquired(self.pool) as connection:
            count: int = await connection.fetchval(
                f"select count(*) from run_facts f join runs r on r.namespace_id = f.namespace_id"
                f" and r.run_id = f.run_id where {where} and f.ended_at is null and r.cancel_seq is null",
                *values,
            )
        return count

    async def find_entry(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, n: int | None = None
    ) -> StoredEntry | None:
        """The last entry of that type, or the one about the call, timer or wait `n`."""
        found = await self._find_entries(namespace, run, entry_type, n, limit=1)
        return found[0] if found else None

    async def has_signal(self, namespace: NamespaceId, run: RunId, signal_id: str) -> bool:
        """Whether the journal has a signal of that id; for runs that have ended, whose ids are kept nowhere else."""
        found = await self._find_entries(
            namespace, run, EntryType.SIGNAL_RECEIVED, signal_number(signal_id), limit=SAME_NUMBER_MAX
        )
        return any(orjson.loads(entry.body)["id"] == signal_id for entry in found)

    async def quarantine_report(self, namespace: NamespaceId, run: RunId) -> bytes | None:
        """The JSON text of the last one."""
        async with acquired(self.pool) as connection:
            report = await connection.fetchval(REPORT_SQL, namespace, run)
        return None if report is None else (await self.keys.of(namespace)).of(run).open(report, REPORT_PLACE)

    async def _find_entries(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, n: int | None, *, limit: int
    ) -> list[StoredEntry]:
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                f"select {ENTRY_COLUMNS} from entries where namespace_id = $1 and run_id = $2 and type = $3"
                " and ($4::int is null or n = $4) order by seq desc limit $5",
                namespace,
                run,
                entry_type,
                n,
                limit,
            )
        return await self._entries_of(namespace, run, rows)

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
        return await self._entries_of(namespace, run, rows)

    async def _entries_of(self, namespace: NamespaceId, run: RunId, rows: list[Any]) -> list[StoredEntry]:
        if not rows:
            return []
        sealer = (await self.keys.of(namespace)).of(run)
        return [entry_of(row, sealer) for row in rows]

    async def _records(
        self, rows: list[Any], pending: dict[str, tuple[list[PendingRow], int]]
    ) -> list[RunRecord]:
        records = []
        for row in rows:
            run = str(row["run_id"])
            shown = {"progress": row["progress"], "fork_report": row["fork_report"]}
            if any(shown.values()):
                key = (await self.keys.of(NamespaceId(str(row["namespace_id"])))).of(run)
                places = {"progress": PROGRESS_PLACE, "fork_report": FORK_PLACE}
                shown = {name: text and key.open(text, places[name]) for name, text in shown.items()}
            waits, total = pending.get(run, ([], 0))
            records.append(record_of(row, tuple(waits), total, **shown))
        return records


async def _pending_of(connection: Any, rows: list[Any]) -> dict[str, tuple[list[PendingRow], int]]:
    """The first pending things of the runs that go on, and how many there are of each."""
    active = [row for row in rows if row["ended_at"] is None]
    pending: dict[str, tuple[list[PendingRow], int]] = {}
    if active:
        found = await connection.fetch(
            PENDING_SQL, [row["namespace_id"] for row in active], [row["run_id"] for row in active]
        )
        for row in found:
            pending.setdefault(str(row["run_id"]), ([], row["total"]))[0].append(pending_of(row))
    return pending
