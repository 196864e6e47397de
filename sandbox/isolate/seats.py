"""Who may check next: a few children, the tenants in turn, one child each, and all slow tenants together in one.

A script that makes the compiler explode holds its child for seconds. Its author's next ones wait for that, and so do
those of others who did the same lately: however many such tenants come at once, everybody else goes on.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

T = TypeVar("T")

SLOW_FOR_S = 600.0
"""How long a tenant counts as slow after it was."""
SLOW_MAX = 10_000
"""Tenants that are remembered as slow; the one that was longest ago goes."""


class Seats(Generic[T]):
    def __init__(self, seats: Sequence[T], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = list(seats)
        self._clock = clock
        self._holding: dict[str, bool] = {}
        """Tenants with a seat, and whether it is one of the slow ones'."""
        self._waiting: OrderedDict[str, deque[asyncio.Future[T]]] = OrderedDict()
        self._slow: OrderedDict[str, float] = OrderedDict()

    @asynccontextmanager
    async def seat(self, tenant: str, prefer: Callable[[T], bool]) -> AsyncIterator[T]:
        """Wait for one to be free; of several that are, take one that is preferred."""
        seat = await self.take(tenant, prefer)
        try:
            yield seat
        finally:
            self.leave(tenant, seat)

    def was_slow(self, tenant: str) -> None:
        """From now on it shares one seat with all others of which this was said."""
        self._slow[tenant] = self._clock() + SLOW_FOR_S
        self._slow.move_to_end(tenant)
        if len(self._slow) > SLOW_MAX:
            self._slow.popitem(last=False)

    def _is_slow(self, tenant: str) -> bool:
        until = self._slow.get(tenant)
        if until is not None and until <= self._clock():
            del self._slow[tenant]
            return False
        return until is not None

    def _may(self, tenant: str) -> bool:
        if not self._free or tenant in self._holding:
            return False
        return not (self._is_slow(tenant) and any(self._holding.values()))

    def _hold(self, tenant: str) -> None:
        self._holding[tenant] = self._is_slow(tenant)

    async def take(self, tenant: str, prefer: Callable[[T], bool]) -> T:
        """As `seat`; whoever takes one must `leave` it."""
        if self._may(tenant):
            seat = next((seat for seat in self._free if prefer(seat)), self._free[0])
            self._free.remove(seat)
            self._hold(tenant)
            return seat
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to us at the same moment
                self.leave(tenant, turn.result())
            raise

    def leave(self, tenant: str, seat: T, *, usable: bool = True) -> None:
        """`usable`: else nobody gets the seat before `repaired` says that it is; its tenant need not wait for that."""
        del self._holding[tenant]
        if usable:
            self._free.append(seat)
        self._go_on()

    def repaired(self, seat: T) -> None:
        self._free.append(seat)
        self._go_on()

    def _go_on(self) -> None:
        for waiting in list(self._waiting):
            while waiting in self._waiting and self._may(waiting):
                self._serve(waiting)

    def _serve(self, tenant: str) -> None:
        turns = self._waiting[tenant]
        turn = turns.popleft()
        if turns:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        if not turn.done():
            self._hold(tenant)
            turn.set_result(self._free.pop(0))
