"""Purges organizations that were closed long enough ago."""

import asyncio
import logging

from app.background import repeat
from tenancy.closing.service import PURGED_AT_ONCE, Closing, Erase

logger = logging.getLogger(__name__)

EVERY_S = 600.0


async def run_closing(closing: Closing, erase: Erase, stop: asyncio.Event) -> None:
    """Purge until `stop` is set; any number of replicas: what two of them do is done once."""

    async def purge() -> bool:
        done = await closing.purge_due(erase)
        if done:
            logger.info("%d closed organizations were purged", done)
        return done == PURGED_AT_ONCE

    await repeat("purging closed organizations", purge, stop, every_s=EVERY_S)
