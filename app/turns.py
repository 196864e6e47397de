"""How much of one kind of work a namespace has under way in this process: what is more waits for its own, not others.

Connections to the database are handed out in the order of asking: without this, whoever asks for a thousand things
at once stands before everybody else. Whoever has a turn and waits for something slow lets another have it meanwhile.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from sandbox.journal.ids import NamespaceId

_MINE: ContextVar[asyncio.Semaphore | None] = ContextVar("rewind_turn", default=None)
"""What the current task has a turn of."""


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
                mine = _MINE.set(semaphore)
                try:
                    yield
                finally:
                    _MINE.reset(mine)
        finally:
            _, users = self._known[namespace]
            if users > 1:
                self._known[namespace] = (semaphore, users - 1)
            else:
                del self._known[namespace]


@asynccontextmanager
async def waiting() -> AsyncIterator[None]:
    """Within, the task's turn, if it has one, is somebody else's; afterwards it waits for its own again."""
    mine = _MINE.get()
    if mine is None:
        yield
        return
    mine.release()
    try:
        yield
    finally:
        await _again(mine)


async def _again(turn: asyncio.Semaphore) -> None:
    """Whatever happens: who gave a turn away must have one to give back. A cancellation counts afterwards."""
    cancelled = None
    while True:
        try:
            await turn.acquire()
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
