"""What a process does by itself, again and again, until it is told to stop."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from sandbox.journal.errors import Unavailable

logger = logging.getLogger(__name__)


async def repeat(
    what: str, work: Callable[[], Awaitable[bool]], stop: asyncio.Event, *, every_s: float
) -> None:
    """Do `work` every `every_s` seconds until `stop` is set; at once again when it says that there is more.

    A database or object store that is away is waited for; a fault is logged under `what`, and the work goes on.
    """
    while not stop.is_set():
        more = False
        try:
            more = await work()
        except Unavailable as error:
            logger.warning("%s: waits: %s", what, error)
        except Exception:
            logger.exception("%s: failed; it goes on", what)
        if not more:
            await pause(stop, every_s)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until `stop` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
