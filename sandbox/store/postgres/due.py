"""What the scheduler reads: pending things whose time has come, leases that ran out."""

from collections.abc import Sequence

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.hints import HintBus
from sandbox.store.interface import DueRow, DueWhy, PendingKind
from sandbox.store.postgres.connection import acquired

WINDOW = 20
"""So many times as much as is asked for is looked at, to find the namespaces behind one's burst."""

# Quarantined runs keep their timers; they fire as well, only nothing is activated.
DUE_SQL = """select namespace_id, run_id, kind, n, due, due_why, attempt, begun_at, timeout_ms, name
  from (select w.*, row_number() over (partition by namespace_id order by due, kind, n) as rank
    from (select p.namespace_id, p.run_id, p.kind, p.n, p.due, p.due_why, p.attempt, p.begun_at, p.timeout_ms, p.name
      from pending p where p.due <= now_ms() order by p.due, p.kind, p.n limit $2) w) ranked
  order by rank, due, kind, n limit $1"""
NEXT_SQL = """select now_ms() as now, least(
    (select min(due) from pending where due is not null),
    (select min(lease_until) from pending where lease_until is not null)) as due"""


class Due:
    pool: asyncpg.Pool
    _hints: HintBus | None

    async def read_due(self, limit: int) -> list[DueRow]:
        """Due things, the namespaces in turn; those of one namespace in (due, number) order."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(DUE_SQL, limit, limit * WINDOW)
        return [
            DueRow(
                namespace=NamespaceId(str(row["namespace_id"])),
                run=RunId(str(row["run_id"])),
                kind=PendingKind(row["kind"]),
                n=row["n"],
                due=TimeMs(row["due"]),
                why=None if row["due_why"] is None else DueWhy(row["due_why"]),
                attempt=row["attempt"],
                begun_at=row["begun_at"],
                timeout_ms=row["timeout_ms"],
                name=row["name"],
            )
            for row in rows
        ]

    async def begin_runs(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> int:
        """Let workers claim the runs whose start has come; how many these are."""
        async with acquired(self.pool) as connection:
            begun: int = await connection.fetchval(
                "select begin_runs($1, $2)", [ns for ns, _ in runs], [run for _, run in runs]
            )
        if begun and self._hints is not None:
            self._hints.send("worker", {"k": "ready"})
        return begun

    async def next_due(self) -> tuple[TimeMs, TimeMs | None]:
        """(now, when something is due next)."""
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(NEXT_SQL)
        return TimeMs(row["now"]), row["due"]

    async def expire_leases(self, limit: int) -> list[DueRow]:
        """Offer late idempotent calls again; the late calls that may not be repeated are returned."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch("select * from expire_leases($1)", limit)
        return [
            DueRow(
                namespace=NamespaceId(str(row["namespace_id"])),
                run=RunId(str(row["run_id"])),
                kind=PendingKind.CALL,
                n=row["n"],
                due=TimeMs(0),
                why=None,
                attempt=row["attempt"],
                begun_at=row["begun_at"],
                timeout_ms=None,
            )
            for row in rows
            if not row["reoffered"]
        ]
