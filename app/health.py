"""Whether this deployment can serve: database reachable, migrations applied, a live worker for new runs."""

from collections.abc import Sequence

import asyncpg

from infra.migrate import load_migrations
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import Epoch
from sandbox.store.postgres.connection import acquired

WORKER_STALE_MS = 10_000
"""A worker not heard of for so long is taken for dead."""


class Health:
    def __init__(self, pool: asyncpg.Pool, epoch: Epoch) -> None:
        self._pool = pool
        self._epoch = epoch
        self._migrations = {(migration.version, migration.sha256) for migration in load_migrations()}

    async def problems(self) -> list[str]:
        """What keeps this deployment from serving; empty: it is ready."""
        try:
            async with acquired(self._pool) as connection:
                rows = await connection.fetch("select version, sha256 from schema_migrations")
                applied = {(row["version"], row["sha256"]) for row in rows}
                if not self._migrations <= applied:
                    return ["the database lacks migrations of this build: run `rewind db upgrade`"]
                worker = await connection.fetchval(
                    "select exists (select from workers where heartbeat_at > now_ms() - $1::bigint "
                    "and $2::smallint = any (epochs))",
                    WORKER_STALE_MS,
                    self._epoch,
                )
        except Unavailable as error:
            return [error.detail]
        except asyncpg.UndefinedTableError:
            return ["the database has no schema yet: run `rewind db upgrade`"]
        return [] if worker else [f"no live worker serves epoch {self._epoch}"]


def text_of(problems: Sequence[str]) -> str:
    return "; ".join(problems) + "."
