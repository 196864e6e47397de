"""What a process does by itself, again and again, until it is told to stop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sandbox.journal.errors import Unavailable

logger = logging.getLogger(__name__)


async def repeat(
    what: str,
    work: Callable[[], Awaitable[bool | None]],
    stop: asyncio.Event,
    *,
    every_s: float,
    wake: asyncio.Event | None = None,
) -> None:
    """Do `work` every `every_s` seconds until `stop` is set; at once again when it says that there is more.

    `wake` ends a pause early, whenever it was set since the work began. A database or object store that is away
    is waited for; a fault is logged under `what`, and the work goes on.
    """
    while not stop.is_set():
        more: bool | None = False
        if wake is not None:
            wake.clear()
        try:
            more = await work()
        except Unavailable as error:
            logger.warning("%s: waits: %s", what, error)
        except Exception:
            logger.exception("%s: failed; it goes on", what)
        if not more:
            await pause(stop, every_s, wake)


async def pause(stop: asyncio.Event, seconds: float, wake: asyncio.Event | None = None) -> None:
    """Wait so long, or until `stop` or `wake` is set."""
    waits = [asyncio.create_task(event.wait()) for event in (stop, wake) if event is not None]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
