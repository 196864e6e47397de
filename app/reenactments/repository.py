"""Replays that outlived their request."""

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys

ANSWER_PLACE = b"replay"
KEPT_MS = 86_400_000
KEPT_MAX = 100
"""Per namespace; older ones are forgotten."""


class ReplayRepository:
    def __init__(self, pool: asyncpg.Pool, keys: NamespaceKeys) -> None:
        self._pool = pool
        self._keys = keys

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
        sealer = (await self._keys.of(namespace)).of(f"replay/{replay}")
        async with acquired(self._pool) as connection:
            await connection.execute(
                "update replays set answer = $4, deadline = case when $4::bytea is null then 0 else deadline end"
                " where namespace_id = $1 and run_id = $2 and id = $3",
                namespace,
                run,
                replay,
                None if answer is None else sealer.seal(answer, ANSWER_PLACE),
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
        if row is None:
            return None
        if row["answer"] is None:
            return None, row["open"]
        sealer = (await self._keys.of(namespace)).of(f"replay/{replay}")
        return sealer.open(row["answer"], ANSWER_PLACE), row["open"]
