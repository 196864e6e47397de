"""Who may check next: a few children, the tenants in turn, one child each, and all slow tenants together in one.

A script that makes the compiler explode holds its child for seconds, and often costs its life. Its author's next ones
wait for that child, and so do those of others who did the same lately. Always the same one: so the others stay as
they are, started and warm, for everybody else.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from sandbox.isolate.slow import SlowTenants

T = TypeVar("T")
_Turn = tuple[asyncio.Future[T], Callable[[T], bool]]


class Seats(Generic[T]):
    def __init__(self, seats: Sequence[T], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._free = list(seats)
        self._slow_seat = seats[0]
        self._slow = SlowTenants(clock)
        self._holding: set[str] = set()
        self._waiting: OrderedDict[str, deque[_Turn[T]]] = OrderedDict()

    def was_slow(self, tenant: str) -> None:
        """From now on it shares the first seat with all others of which this was said."""
        self._slow.add(tenant)

    def _choice(self, tenant: str, prefer: Callable[[T], bool]) -> T | None:
        """The seat that it may have now: the slow ones' own last, unless only that one is preferred."""
        if tenant in self._holding:
            return None
        if tenant in self._slow:
            return next((seat for seat in self._free if seat is self._slow_seat), None)
        free = sorted(self._free, key=lambda seat: seat is self._slow_seat)
        return next((seat for seat in free if prefer(seat)), free[0] if free else None)

    def _hold(self, tenant: str, seat: T) -> T:
        self._free.remove(seat)
        self._holding.add(tenant)
        return seat

    async def take(self, tenant: str, prefer: Callable[[T], bool]) -> T:
        """Wait for one to be free; of several that are, take one that is preferred. Whoever has one must `leave` it."""
        seat = self._choice(tenant, prefer)
        if seat is not None:
            return self._hold(tenant, seat)
        turn: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append((turn, prefer))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given to us at the same moment
                self.leave(tenant, turn.result())
            raise

    def leave(self, tenant: str, seat: T, *, usable: bool = True) -> None:
        """`usable`: else nobody gets the seat before `repaired` says that it is; its tenant need not wait for that."""
        self._holding.discard(tenant)
        if usable:
            self._free.append(seat)
        self._go_on()

    def repaired(self, seat: T) -> None:
        self._free.append(seat)
        self._go_on()

    def _go_on(self) -> None:
        for tenant in list(self._waiting):
            while tenant in self._waiting and self._serve(tenant):
                continue

    def _serve(self, tenant: str) -> bool:
        """Give it a seat, or leave out one that has given up; False: there is none for it now."""
        turns = self._waiting[tenant]
        turn, prefer = turns[0]
        seat = None if turn.done() else self._choice(tenant, prefer)
        if seat is None and not turn.done():
            return False
        turns.popleft()
        if turns:
            self._waiting.move_to_end(tenant)
        else:
            del self._waiting[tenant]
        if seat is not None:
            turn.set_result(self._hold(tenant, seat))
        return True
