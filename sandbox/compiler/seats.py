"""Who may check next: a few children, the tenants in turn, and no tenant in all of them.

A script that makes the compiler explode holds its child for seconds; its author's next ones wait for that same
child, everybody else goes on in the others.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class Seats(Generic[T]):
    def __init__(self, seats: Sequence[T]) -> None:
        self._free = list(seats)
        self._each_max = max(len(seats) - 1, 1)
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[T]]] = OrderedDict()

    @asynccontextmanager
    async def seat(self, tenant: str, prefer: Callable[[T], bool]) -> AsyncIterator[T]:
        """Wait for one to be free; of several that are, take one that is preferred."""
        seat = await self._take(tenant, prefer)
        try:
            yield seat
        finally:
            self._give_back(tenant, seat)

    async def _take(self, tenant: str, prefer: Callable[[T], bool]) -> T:
        if self._free and self._held[tenant] < self._each_max:
            seat = next((seat for seat in self._free if prefer(seat)), self._free[0])
            self._free.remove(seat)
            self._held[tenant] += 1
            return seat
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to us at the same moment
                self._give_back(tenant, turn.result())
            raise

    def _give_back(self, tenant: str, seat: T) -> None:
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        self._free.append(seat)
        for waiting in list(self._waiting):
            while self._free and self._held[waiting] < self._each_max and waiting in self._waiting:
                self._serve(waiting)

    def _serve(self, tenant: str) -> None:
        turns = self._waiting[tenant]
        turn = turns.popleft()
        if turns:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        if not turn.done():
            self._held[tenant] += 1
            turn.set_result(self._free.pop(0))
