"""Purges organizations that were closed long enough ago."""

import asyncio
import contextlib
import logging

from sandbox.journal.errors import Unavailable
from tenancy.closing.service import PURGED_AT_ONCE, Closing, Erase

logger = logging.getLogger(__name__)

EVERY_S = 600.0


async def run_closing(closing: Closing, erase: Erase, stop: asyncio.Event) -> None:
    """Purge until `stop` is set; any number of replicas: what two of them do is done once."""
    while not stop.is_set():
        try:
            done = await closing.purge_due(erase)
            if done:
                logger.info("%d closed organizations were purged", done)
            if done == PURGED_AT_ONCE:
                continue
        except Unavailable as error:
            logger.warning("closed organizations wait to be purged: %s", error)
        except Exception:
            logger.exception("purging closed organizations failed; it goes on")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EVERY_S):
                await stop.wait()
