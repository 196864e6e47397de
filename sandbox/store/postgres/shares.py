"""How many of a pool's connections one customer has: pools serve in the order of asking, and who asks most asks first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from sandbox.journal.errors import Unavailable

PATIENCE_S = 20.0
_HOLDS: ContextVar[bool] = ContextVar("holds", default=False)
"""Whether the current task has a connection: whoever needs a second one for the first does not wait for itself."""


class Shares:
    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._known: dict[str, tuple[asyncio.Semaphore, int]] = {}
        """By customer, with how many hold or await a connection; nobody's is forgotten."""

    @asynccontextmanager
    async def of(self, customer: str) -> AsyncIterator[None]:
        """Wait until the customer has a connection free. The deployment's own work does not. Errors: Unavailable."""
        if not customer or _HOLDS.get():
            yield
            return
        semaphore, users = self._known.get(customer, (asyncio.Semaphore(self._at_once), 0))
        self._known[customer] = (semaphore, users + 1)
        try:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await semaphore.acquire()
            except TimeoutError:
                raise Unavailable(
                    "too many of your requests wait for the database: send fewer at a time"
                ) from None
            token = _HOLDS.set(True)
            try:
                yield
            finally:
                _HOLDS.reset(token)
                semaphore.release()
        finally:
            _, users = self._known[customer]
            if users > 1:
                self._known[customer] = (semaphore, users - 1)
            else:
                del self._known[customer]
