"""Whether this deployment can serve: database reachable, migrations applied, a live worker for new runs."""

import time
from collections.abc import Callable, Sequence

import asyncpg

from infra.migrate import load_migrations
from sandbox.epochs.registry import served_epochs
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import Epoch, TimeMs
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.health import LIVE_EPOCHS
from sandbox.store.postgres.reach import TenantPool, as_system

LOOK_EVERY_S = 60.0
WORKER_STALE_MS = 10_000
"""A worker not heard of for so long is taken for dead."""


class Health:
    def __init__(
        self, pool: asyncpg.Pool | TenantPool, epoch: Epoch, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._epoch = epoch
        self._clock = clock
        self._lacking: list[Epoch] = []
        self._looked_at = -LOOK_EVERY_S
        self._migrations = {(migration.version, migration.sha256) for migration in load_migrations()}

    async def now(self) -> TimeMs:
        """Errors: Unavailable."""
        with as_system():
            async with acquired(self._pool) as connection:
                return TimeMs(await connection.fetchval("select now_ms()"))

    async def problems(self) -> list[str]:
        """What keeps this deployment from serving; empty: it is ready."""
        try:
            with as_system():
                return await self._problems()
        except Unavailable as error:
            return [error.detail]
        except asyncpg.UndefinedTableError:
            return ["the database has no schema yet: run `rewind db upgrade`"]

    async def _problems(self) -> list[str]:
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
            await self._look_at_epochs(connection)
        problems = [
            f"runs of epoch {epoch} are not over, and this build does not have it" for epoch in self._lacking
        ]
        return problems if worker else [*problems, f"no live worker serves epoch {self._epoch}"]

    async def _look_at_epochs(self, connection: asyncpg.Connection) -> None:
        """Now and then: it reads every live run, and the answer changes only when the last one of an epoch ends."""
        if self._clock() - self._looked_at < LOOK_EVERY_S:
            return
        rows = await connection.fetch(LIVE_EPOCHS)
        self._looked_at = self._clock()
        self._lacking = [Epoch(row["epoch"]) for row in rows if row["epoch"] not in served_epochs()]


def text_of(problems: Sequence[str]) -> str:
    return "; ".join(problems) + "."
