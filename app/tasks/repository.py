"""Queries about tasks beside the store's leases; every one is keyed by namespace and run."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.tasks import TaskKey


class TaskRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def toolsets_of(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> list[Any]:
        """(namespace_id, run_id, organization_id, toolset, toolset_digest) of each run."""
        async with acquired(self._pool) as connection:
            rows: list[Any] = await connection.fetch(
                "select f.namespace_id, f.run_id, f.organization_id, f.toolset, f.toolset_digest "
                "from unnest($1::uuid[], $2::uuid[]) q (ns, run) "
                "join run_facts f on f.namespace_id = q.ns and f.run_id = q.run",
                [namespace for namespace, _ in runs],
                [run for _, run in runs],
            )
        return rows

    async def pending_call(self, namespace: NamespaceId, run: RunId, call: int) -> Any | None:
        """(name, attempt, begun_at) of a call that has no outcome yet."""
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                "select name, attempt, begun_at from pending "
                "where namespace_id = $1 and run_id = $2 and kind = 0 and n = $3",
                namespace,
                run,
                call,
            )

    async def offer_again(self, key: TaskKey, after_ms: int) -> bool:
        """End a failed attempt and offer the call again after a pause; the next claim counts as a new attempt."""
        namespace, run, call, attempt, releases = key
        async with acquired(self._pool) as connection:
            offered = await connection.fetchval(
                "update pending set claim_id = null, lease_until = null, deferred = false, "
                "available_at = case when claim_id is null and not deferred then available_at "
                "else now_ms() + $5 end "
                "where namespace_id = $1 and run_id = $2 and kind = 0 and n = $3 and attempt = $4 "
                "and releases = $6 and not stopping returning true",
                namespace,
                run,
                call,
                attempt,
                after_ms,
                releases,
            )
        return bool(offered)
