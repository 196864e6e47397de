"""How much of one kind of work a namespace has under way in this process: what is more waits for its own, not others.

Connections to the database are handed out in the order of asking: without this, whoever asks for a thousand things
at once stands before everybody else.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sandbox.journal.ids import NamespaceId


class Turns:
    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._known: dict[NamespaceId, tuple[asyncio.Semaphore, int]] = {}
        """By namespace, with how many hold or await it; nobody's is forgotten."""

    @asynccontextmanager
    async def of(self, namespace: NamespaceId) -> AsyncIterator[None]:
        semaphore, users = self._known.get(namespace, (asyncio.Semaphore(self._at_once), 0))
        self._known[namespace] = (semaphore, users + 1)
        try:
            async with semaphore:
                yield
        finally:
            _, users = self._known[namespace]
            if users > 1:
                self._known[namespace] = (semaphore, users - 1)
            else:
                del self._known[namespace]
