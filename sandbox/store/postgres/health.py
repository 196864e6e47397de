"""What an operator wants to know of a database: its version, who works on it, which epochs are still needed."""

from dataclasses import dataclass

from sandbox.journal.ids import Epoch
from sandbox.store.postgres.connection import connect
from sandbox.store.postgres.owner import STALE_MS

_WORKERS = """select host, pid, epochs, now_ms() - heartbeat_at as silent_ms from workers
  where heartbeat_at > now_ms() - $1 order by started_at"""
_LIVE_EPOCHS = "select distinct epoch from runs where status in (0, 5) order by epoch"


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
            tuple(Epoch(row["epoch"]) for row in await connection.fetch(_LIVE_EPOCHS)),
        )
    finally:
        await connection.close()
