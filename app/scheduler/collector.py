"""Deletes values from the object store that no run names and nobody has put for a day."""

import asyncio
import logging

import asyncpg

from app.background import repeat
from sandbox.store.blobs import BlobStore
from sandbox.store.postgres.values import COLLECTED_AT_ONCE, collect

logger = logging.getLogger(__name__)

EVERY_S = 600.0


async def run_collector(pool: asyncpg.Pool, blobs: BlobStore, stop: asyncio.Event) -> None:
    """Collect until `stop` is set; any number of replicas: each takes rows that no other one holds."""

    async def work() -> bool:
        await collect_all(pool, blobs, stop)
        return False

    await repeat("the collector of values", work, stop, every_s=EVERY_S)


async def collect_all(pool: asyncpg.Pool, blobs: BlobStore, stop: asyncio.Event) -> int:
    """Look at everything that is old enough; how many values were deleted."""
    total = 0
    while not stop.is_set():
        looked_at, deleted = await collect(pool, blobs.delete)
        total += deleted
        if looked_at < COLLECTED_AT_ONCE:
            break
    if total:
        logger.info("%d values that no run names were deleted", total)
    return total
