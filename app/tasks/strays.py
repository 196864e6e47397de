"""Leases that a worker gave to a claim which was being answered at that moment: given back, never waited for.

The hint of such a lease arrives after the claim has left, and the call is on offer again at once; when the
hint is lost too, the sweep finds the row. Without this a call that nobody has started would count as begun
until its lease runs out. The same claim may have been asked again at another api (its answer was lost): what was handed out
there is no stray, and is never given back here.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import TimeMs
from sandbox.store.interface import Task
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.reach import as_system
from sandbox.store.postgres.tasks import TaskKey, key_of

logger = logging.getLogger(__name__)

REMEMBERED_S = 5.0
"""A worker takes a claim for parked at most FRESH_S after its last word; the rest is for a slow commit."""
CLAIMS_MAX = 50_000


class Strays:
    def __init__(self, store: PostgresEdge, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._closed: dict[str, tuple[float, frozenset[TaskKey]]] = {}
        self._hinted: dict[tuple[TaskKey, TimeMs], Callable[[], None]] = {}
        self._waiting: Counter[str] = Counter()
        self._giving_back: asyncio.Task[None] | None = None

    def opened(self, claim_id: str) -> None:
        """The claim waits here (again): what it is leased is its own."""
        self._waiting[claim_id] += 1

    def closed(self, claim_id: str, answered: Sequence[Task], *, gone: bool = False) -> None:
        """The claim has its answer: whatever else it is leased is a stray.

        `gone`: its client has left without one. It may ask again, at another api: what it is leased there is
        in its hands, and must not be given back here.
        """
        self._waiting[claim_id] -= 1
        if not self._waiting[claim_id]:
            del self._waiting[claim_id]
        known = self._closed.pop(claim_id, None)
        if gone:
            return
        keys = frozenset(key_of(task) for task in answered)
        if known is not None:  # the same claim again: both answers count
            keys |= known[1]
        if len(self._closed) >= CLAIMS_MAX:
            self._closed.pop(next(iter(self._closed)))
        self._closed[claim_id] = (self._clock(), keys)

    def on_hint(self, claim_id: str, task: Task, offer: Callable[[], None]) -> None:
        """A call was leased to a claim that does not wait here: give it back at once, and `offer` it."""
        key = key_of(task)
        if key in self._closed.get(claim_id, (0, frozenset()))[1]:
            return  # the claim found it by looking, before the hint came, and was answered with it
        self._hinted[key, task.lease_until] = offer
        if self._giving_back is None:
            self._giving_back = asyncio.create_task(self._give_back_hinted(), name="strays")

    async def _give_back_hinted(self) -> None:
        """Together, what has gathered; while one statement runs the next batch gathers."""
        try:
            with as_system():
                while self._hinted:
                    hinted, self._hinted = self._hinted, {}
                    await self._store.give_back_tasks(list(hinted))
                    for offer in hinted.values():
                        offer()
        except Unavailable as error:
            logger.warning("strays are left to the sweep: %s", error)
        finally:
            self._giving_back = None

    async def sweep(self) -> None:
        """Release the strays of recent claims whose hints were lost. Errors: Unavailable."""
        oldest = self._clock() - REMEMBERED_S
        self._closed = {claim: entry for claim, entry in self._closed.items() if entry[0] >= oldest}
        if not self._closed:
            return
        strays = [
            (key, end)
            for claim, key, end in await self._store.never_handed(list(self._closed))
            if claim in self._closed and claim not in self._waiting and key not in self._closed[claim][1]
        ]
        if strays:
            await self._store.give_back_tasks(strays)
