"""Queries that runs need beside the store's own; every one is keyed by namespace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId, Seq, TimeMs
from sandbox.store.interface import RunStatus, StoredEntry
from sandbox.store.postgres.batcher import Batcher
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.reach import as_system
from sandbox.store.postgres.rows import ENTRY_COLUMNS, entry_of

_ENTRIES = f"""select e.namespace_id, e.run_id, {", ".join(f"e.{name}" for name in ENTRY_COLUMNS.split(", "))}
from unnest($1::uuid[], $2::uuid[], $3::int[]) q (ns, run, seq)
join entries e on e.namespace_id = q.ns and e.run_id = q.run and e.seq = q.seq"""

_HEADS = """select r.run_id, r.next_seq, r.status from unnest($1::uuid[], $2::uuid[]) q (ns, run)
cross join lateral (select * from runs r where r.namespace_id = q.ns and r.run_id = q.run limit 1) r"""


@dataclass(frozen=True, slots=True)
class Head:
    """How long a journal is, and whether it goes on."""

    next_seq: Seq
    status: RunStatus


class RunRepository:
    def __init__(self, pool: asyncpg.Pool, keys: NamespaceKeys) -> None:
        self._pool = pool
        self._keys = keys
        self._statuses: Batcher[tuple[NamespaceId, RunId], RunStatus | None] = Batcher(
            self._read_statuses, key=lambda pair: pair
        )

    async def entries_at(
        self, namespace: NamespaceId, places: Sequence[tuple[RunId, int]]
    ) -> dict[tuple[RunId, int], StoredEntry]:
        """Single entries of several runs, by run and seq."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                _ENTRIES,
                [namespace] * len(places),
                [run for run, _ in places],
                [seq for _, seq in places],
            )
        if not rows:
            return {}
        key = await self._keys.of(namespace)
        sealers = {run: key.of(run) for run, _ in places}
        found = {}
        for row in rows:
            run = RunId(str(row["run_id"]))
            found[run, row["seq"]] = entry_of(row, sealers[run])
        return found

    async def only_outsiders_pending(self, namespace: NamespaceId, run: RunId, until: TimeMs) -> bool:
        """Whether everything that the run waits for is up to people, or later than `until`."""
        async with acquired(self._pool) as connection:
            found = await connection.fetchval(
                "select exists (select from pending where namespace_id = $1 and run_id = $2 and kind not in (4, 6) "
                "and not (kind = 2 or (kind = 0 and (gated or deferred)) or (kind = 1 and due > $3)))",
                namespace,
                run,
                until,
            )
        return not found

    async def before_start(
        self, organization: OrganizationId, namespace: NamespaceId, route: str, key: str | None
    ) -> Any:
        """The time (`now`), and what this key was used for: `object_id` is null when it was not."""
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                "select now_ms() as now, i.request_sha256, i.object_id from (select) one left join idempotency i "
                "on i.organization_id = $1 and i.namespace_id = $2 and i.route = $3 and i.key = $4",
                organization,
                namespace,
                route,
                key,
            )

    async def reserve_batch(
        self,
        organization: OrganizationId,
        namespace: NamespaceId,
        route: str,
        key: str,
        request_sha256: bytes,
    ) -> bytes:
        """Note a batch's key unless it is known; the digest of the request that it belongs to."""
        async with acquired(self._pool) as connection:
            known: bytes = await connection.fetchval(
                "with made as (insert into idempotency values ($1, $2, $3, $4, $5, '', now_ms())"
                " on conflict do nothing) select coalesce((select request_sha256 from idempotency"
                " where organization_id = $1 and namespace_id = $2 and route = $3 and key = $4), $5)",
                organization,
                namespace,
                route,
                key,
                request_sha256,
            )
        return known

    async def heads(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> dict[RunId, Head]:
        """Of the runs that exist. One look is for all who wait, of several tenants; each has asked for its own runs."""
        with as_system():
            async with acquired(self._pool) as connection:
                rows = await connection.fetch(_HEADS, [ns for ns, _ in runs], [run for _, run in runs])
        return {
            RunId(str(row["run_id"])): Head(Seq(row["next_seq"]), RunStatus(row["status"])) for row in rows
        }

    async def status(self, namespace: NamespaceId, run: RunId) -> RunStatus | None:
        """Of one run; those who ask at the same time share a query."""
        return await self._statuses.put((namespace, run))

    async def abandoned(self, namespace: NamespaceId, run: RunId) -> bool:
        """An operator gave the run up, and its end is due."""
        async with acquired(self._pool) as connection:
            found: bool = await connection.fetchval(
                "select exists (select from pending where namespace_id = $1 and run_id = $2 and kind = 6)",
                namespace,
                run,
            )
        return found

    async def _read_statuses(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> list[RunStatus | None]:
        heads = await self.heads(runs)
        return [heads[run].status if run in heads else None for _, run in runs]
