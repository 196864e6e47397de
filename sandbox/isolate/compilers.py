"""The processes in which scripts are stripped: a few of each epoch, so that nobody waits for another's script.

Some small texts take a parser exponential time. Their author waits for that, and whoever did the same lately.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.isolate.api import ChildDied, SandboxFault
from sandbox.isolate.frames import Frame
from sandbox.isolate.process import ChildProcess
from sandbox.isolate.seats import Seats

logger = logging.getLogger(__name__)

COMPILERS_MAX = 3
"""Of an epoch. They are started when they are needed, and one more that is there when the next is."""
STRIP_TIMEOUT_S = 30.0
SLOW_NS = 400_000_000
"""Of CPU for one script: above it, its tenant counts as slow for a while, and its process yields to the others."""
LOOK_S = 0.05


@dataclass(eq=False)
class _Place:
    child: ChildProcess | None = None
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def warm(self) -> bool:
        return self.child is not None and not self.child.dead


class Compilers:
    """`strip` at most COMPILERS_MAX scripts at once, one of a tenant, all slow tenants' one after another."""

    def __init__(self, start: Callable[[int], Awaitable[ChildProcess]]) -> None:
        self._start = start
        self._places: dict[int, list[_Place]] = {}
        self._seats: dict[int, Seats[_Place]] = {}
        self._held: set[_Place] = set()
        self._warming: set[asyncio.Task[None]] = set()

    @property
    def processes(self) -> list[ChildProcess]:
        return [
            place.child for places in self._places.values() for place in places if place.child is not None
        ]

    async def strip(self, source: str, epoch: int, *, tenant: str) -> Frame:
        """Errors: ChildDied when there was no answer; SandboxFault when no process can be started."""
        if epoch not in self._seats:
            self._places[epoch] = [_Place() for _ in range(COMPILERS_MAX)]
            self._seats[epoch] = Seats(self._places[epoch])
        seats = self._seats[epoch]
        place = await seats.take(tenant, lambda one: one.warm)
        self._held.add(place)
        slow = False
        try:
            child = await self._ready(place, epoch)
            self._keep_a_spare(epoch)
            began_ns = child.cpu_ns()
            try:
                with _yielding(child, began_ns + SLOW_NS):
                    return await self._asked(child, source, tenant)
            finally:
                slow = child.dead or not 0 <= child.cpu_ns() - began_ns <= SLOW_NS
                if slow:
                    child.kill()  # at its limit it ends by itself, a little later than it answers
        finally:
            if slow:
                seats.was_slow(tenant)
            self._held.discard(place)
            alive = place.child is None or not place.child.dead
            seats.leave(tenant, place, usable=alive)
            if alive:
                self._keep_a_spare(epoch)
            else:  # nobody waits for its successor who need not
                self._soon(self._replace(place, epoch))

    async def _asked(self, child: ChildProcess, source: str, tenant: str) -> Frame:
        request = Frame({"op": "strip"}, source.encode(errors="surrogatepass"))
        try:
            async with asyncio.timeout(STRIP_TIMEOUT_S):
                return await child.ask(request, tenant=tenant)
        except TimeoutError:
            raise ChildDied("the compiler gave no answer in time") from None

    async def _ready(self, place: _Place, epoch: int) -> ChildProcess:
        async with place.starting:
            if place.child is not None and place.child.dead:
                await place.child.stop()
                place.child = None
            if place.child is None:
                place.child = await self._start(epoch)
            return place.child

    def _keep_a_spare(self, epoch: int) -> None:
        """Have a process ready for who comes next: a start takes some time. The slow ones' own is started last."""
        free = [place for place in reversed(self._places[epoch]) if place not in self._held]
        if not any(place.warm or place.starting.locked() for place in free) and free:
            self._soon(self._warm(free[0], epoch))

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def _replace(self, place: _Place, epoch: int) -> None:
        await self._warm(place, epoch)
        self._seats[epoch].repaired(place)

    async def _warm(self, place: _Place, epoch: int) -> None:
        try:
            await self._ready(place, epoch)
        except (SandboxFault, ChildDied, OSError):
            logger.exception("no process to strip scripts in can be started; the next script tries again")

    async def stop(self) -> None:
        for task in self._warming:
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        for child in self.processes:
            with contextlib.suppress(OSError):
                await child.stop()
        self._places, self._seats = {}, {}


@contextlib.contextmanager
def _yielding(child: ChildProcess, slow_at_ns: int) -> Iterator[None]:
    """Above so much CPU the others go first: a parser that is at work for long takes no processor from them."""
    loop = asyncio.get_running_loop()
    look: asyncio.TimerHandle

    def watch() -> None:
        nonlocal look
        if child.cpu_ns() > slow_at_ns:
            child.yield_to_others()
        else:
            look = loop.call_later(LOOK_S, watch)

    look = loop.call_later(LOOK_S, watch)
    try:
        yield
    finally:
        look.cancel()
