"""Whose turn it is: a lock whose waiters are served round-robin over tenants.

One activation may take seconds of CPU. Served in the order of arrival, a tenant's burst of such runs would hold
up everybody behind it for as long as the burst is; so each tenant waits for at most one of every other tenant's.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    def __init__(self) -> None:
        self._taken = False
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def taken(self) -> bool:
        return self._taken

    @asynccontextmanager
    async def turn(self, tenant: str) -> AsyncIterator[None]:
        await self._take(tenant)
        try:
            yield
        finally:
            self._pass_on()

    async def _take(self, tenant: str) -> None:
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to us at the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            tenant, waiters = next(iter(self._waiting.items()))
            turn = waiters.popleft()
            if waiters:
                self._waiting.move_to_end(tenant)
            else:
                del self._waiting[tenant]
            if not turn.done():
                turn.set_result(None)
                return
        self._taken = False
