"""Replays that outlived their request."""

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.connection import acquired

KEPT_MS = 86_400_000
KEPT_MAX = 100
"""Per namespace; older ones are forgotten."""


class ReplayRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def note(self, namespace: NamespaceId, run: RunId, replay: str, left_ms: int) -> None:
        """A replay goes on that nobody waits for any more."""
        async with acquired(self._pool) as connection, connection.transaction():
            await connection.execute(
                "delete from replays where namespace_id = $1 and (created_at < now_ms() - $2 or created_at <"
                " (select created_at from replays where namespace_id = $1 order by created_at desc"
                " offset $3 limit 1))",
                namespace,
                KEPT_MS,
                KEPT_MAX - 1,
            )
            await connection.execute(
                "insert into replays (namespace_id, run_id, id, created_at, deadline)"
                " values ($1, $2, $3, now_ms(), now_ms() + $4)",
                namespace,
                run,
                replay,
                left_ms,
            )

    async def answer(self, namespace: NamespaceId, run: RunId, replay: str, answer: bytes | None) -> None:
        """Keep what came out; None: nothing will, it may be asked for again."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update replays set answer = $4, deadline = case when $4::bytea is null then 0 else deadline end"
                " where namespace_id = $1 and run_id = $2 and id = $3",
                namespace,
                run,
                replay,
                answer,
            )

    async def find(self, namespace: NamespaceId, run: RunId, replay: str) -> tuple[bytes | None, bool] | None:
        """(its answer, whether one may still come); None: there is no such replay."""
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select answer, deadline > now_ms() as open from replays"
                " where namespace_id = $1 and run_id = $2 and id = $3",
                namespace,
                run,
                replay,
            )
        return None if row is None else (row["answer"], row["open"])
