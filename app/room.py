"""How much a process has under way: requests of one customer; bytes of large bodies, of one and of all.

A body of 32 MiB is several hundred MiB as Python objects. What one customer sends at once beyond its share is not
read before others of its own are done with: the connection waits, and with it the sender. Streams and waits are requests
that last: whoever opens them without end would leave no connection for others.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from app.rates import RateLimited
from sandbox.customers import owner
from sandbox.journal.errors import Unavailable

LARGE_BODY_BYTES = 1024 * 1024
"""Smaller ones are not counted."""
EACH_BYTES = 128 * 1024 * 1024
ALL_BYTES = 512 * 1024 * 1024
PATIENCE_S = 30.0
REQUESTS_MAX = 4_000
"""Of one customer under way in one process, streams and those that wait included."""
AGAIN_S = 2


class Room:
    def __init__(
        self, each: int = EACH_BYTES, every: int = ALL_BYTES, patience_s: float = PATIENCE_S
    ) -> None:
        self._each = each
        self._every = every
        self._patience_s = patience_s
        self._held: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    @property
    def held(self) -> int:
        return self._held.total()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Around a request: what it has taken is free when it has been answered to the end."""
        mine = _Request()
        token = _REQUEST.set(mine)
        try:
            yield
        finally:
            _REQUEST.reset(token)
            self._held -= mine.taken
            self._under_way -= mine.counted
            self._admit()

    def enter(self) -> None:
        """Count the current request, now that it is known whose it is. Errors: RateLimited."""
        customer, mine = owner(), _REQUEST.get()
        if mine is None:
            return
        if self._under_way[customer] >= REQUESTS_MAX:
            raise RateLimited(
                f"{REQUESTS_MAX:,} requests of your organization are under way here, streams and waits included: end some.",
                retry_after_s=AGAIN_S,
            )
        self._under_way[customer] += 1
        mine.counted[customer] += 1

    async def take(self, size: int) -> None:
        """Room for so many bytes of the current request, which may have to be waited for. Errors: Unavailable."""
        mine, request = owner(), _REQUEST.get()
        if request is None:
            return
        if not self._fits(mine, size):
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append((mine, size, turn))
            try:
                async with asyncio.timeout(self._patience_s):
                    await turn
            except BaseException as error:
                self._give_up(mine, size, turn)
                if isinstance(error, TimeoutError):
                    raise Unavailable(
                        "too many large bodies of yours are under way: send fewer at a time"
                    ) from None
                raise
        else:
            self._held[mine] += size
        request.taken[mine] += size

    def _give_up(self, mine: str, size: int, turn: "asyncio.Future[None]") -> None:
        self._waiting = [one for one in self._waiting if one[2] is not turn]
        if turn.done() and not turn.cancelled():  # admitted at the very moment
            self._held -= Counter({mine: size})
            self._admit()

    def _fits(self, mine: str, size: int) -> bool:
        """Whoever has nothing yet has room for one body, whatever its size; and so has a process."""
        own, every = self._held[mine], self._held.total()
        return (not own or own + size <= self._each) and (not every or every + size <= self._every)

    def _admit(self) -> None:
        left = []
        for mine, size, turn in self._waiting:
            if turn.done():
                continue
            if self._fits(mine, size):
                self._held[mine] += size
                turn.set_result(None)
            else:
                left.append((mine, size, turn))
        self._waiting = left


@dataclass(slots=True)
class _Request:
    """What the request at hand has of it, by customer."""

    taken: Counter[str] = field(default_factory=Counter)
    counted: Counter[str] = field(default_factory=Counter)


_REQUEST: ContextVar[_Request | None] = ContextVar("request", default=None)
ROOM = Room()
"""Of this process."""
