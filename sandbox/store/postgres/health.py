"""What an operator wants to know of a database: its version, who works on it, which epochs are still needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from sandbox.journal.ids import Epoch
from sandbox.store.postgres.connection import connect
from sandbox.store.postgres.owner import STALE_MS

_WORKERS = """select host, pid, epochs, now_ms() - heartbeat_at as silent_ms from workers
  where heartbeat_at > now_ms() - $1 order by started_at"""
LIVE_EPOCHS = "select distinct epoch from runs where status in (0, 5) order by epoch"


@dataclass(frozen=True, slots=True)
class LiveWorker:
    host: str
    pid: int
    epochs: tuple[int, ...]
    silent_ms: int


@dataclass(frozen=True, slots=True)
class Deployment:
    postgres: str
    workers: tuple[LiveWorker, ...]
    live_epochs: tuple[Epoch, ...]
    """Of runs that are active or quarantined."""


async def lacking_epochs(url: str, served: Sequence[Epoch]) -> list[Epoch]:
    """Epochs of runs that are not over and that a build serving these cannot execute.

    Errors: those of `connect`, but none of a database that has no schema yet.
    """
    try:
        connection = await connect(url, role="rewind_api", name="epochs", planner=False)
    except asyncpg.InvalidParameterValueError:
        return []  # the roles come with the schema
    try:
        live = [Epoch(row["epoch"]) for row in await connection.fetch(LIVE_EPOCHS)]
    except asyncpg.UndefinedTableError:
        return []
    finally:
        await connection.close()
    return [epoch for epoch in live if epoch not in served]


async def read_deployment(url: str) -> Deployment:
    """Errors: those of `connect`, and asyncpg.PostgresError."""
    connection = await connect(url, role="rewind_api", name="doctor", planner=False)
    try:
        workers = await connection.fetch(_WORKERS, STALE_MS)
        return Deployment(
            str(await connection.fetchval("show server_version")).split()[0],
            tuple(
                LiveWorker(row["host"], row["pid"], tuple(row["epochs"]), row["silent_ms"]) for row in workers
            ),
            tuple(Epoch(row["epoch"]) for row in await connection.fetch(LIVE_EPOCHS)),
        )
    finally:
        await connection.close()
