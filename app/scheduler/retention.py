"""Deletes what is past its time: ended runs, idempotency keys, and what is left of deleted namespaces."""

import asyncio
import logging

from app.background import repeat
from sandbox.store.postgres.retention import FIRST, KEYS_AT_ONCE, NAMESPACES_AT_ONCE, Retention

logger = logging.getLogger(__name__)

EVERY_S = 600.0
ERASING_EVERY_S = 5.0
"""Deleted namespaces are looked at more often: somebody asked for that."""


async def run_retention(retention: Retention, stop: asyncio.Event) -> None:
    """Sweep until `stop` is set; any number of replicas: they meet at row locks and find less to do."""
    loop = asyncio.get_running_loop()
    next_sweep = loop.time()

    async def work() -> bool:
        nonlocal next_sweep
        await retention.erase_some()
        if loop.time() >= next_sweep:
            await sweep(retention, stop)
            next_sweep = loop.time() + EVERY_S
        return False

    await repeat("retention", work, stop, every_s=ERASING_EVERY_S)


async def sweep(retention: Retention, stop: asyncio.Event) -> int:
    """Delete all that is past its time, in batches; how many runs that were."""
    deleted = 0
    after = FIRST
    while not stop.is_set():
        page = await retention.expired(after)
        found = 0
        for expired in page:
            if expired.runs:
                found += await retention.delete_runs(expired.namespace, expired.runs)
        deleted += found
        if found:
            continue  # these namespaces may have more
        if len(page) < NAMESPACES_AT_ONCE:
            break
        after = page[-1].namespace
    while not stop.is_set() and await retention.delete_old_keys() == KEYS_AT_ONCE:
        continue
    if deleted:
        logger.info("%d runs that were past their time were deleted", deleted)
    return deleted
