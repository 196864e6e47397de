"""Leases that a worker gave to a claim which was being answered at that moment: given back, never waited for.

The hint of such a lease arrives after the claim has left, and the call is on offer again at once. Without this a call
that nobody has started would count as begun until its lease runs out; when the hint is lost too, it does. Only the
api that was sent the hint gives back, and only a lease as it was sent: the same claim may have been asked again at
another api (its answer was lost), where what it is leased is in its hands. Rows alone do not say which of the two it is.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import TimeMs
from sandbox.store.interface import Task
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.reach import Reach, limit_to
from sandbox.store.postgres.tasks import TaskKey, key_of

logger = logging.getLogger(__name__)

REMEMBERED_S = 5.0
"""A worker takes a claim for parked at most FRESH_S after its last word; the rest is for a slow commit."""
RETRY_S = 1.0
CLAIMS_MAX = 50_000


class Strays:
    def __init__(self, store: PostgresEdge, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._closed: dict[str, tuple[float, frozenset[TaskKey]]] = {}
        self._hinted: dict[tuple[TaskKey, TimeMs], Callable[[], None]] = {}
        self._giving_back: asyncio.Task[None] | None = None

    def closed(self, claim_id: str, answered: Sequence[Task], *, gone: bool = False) -> None:
        """The claim has its answer: whatever else it is leased is a stray.

        `gone`: its client has left without one. It may ask again, at another api: what it is leased there is
        in its hands, and must not be given back here.
        """
        known = self._closed.pop(claim_id, None)
        if gone:
            return
        keys = frozenset(key_of(task) for task in answered)
        if known is not None:  # the same claim again: both answers count
            keys |= known[1]
        now = self._clock()
        while self._closed and (len(self._closed) >= CLAIMS_MAX or self._oldest() < now - REMEMBERED_S):
            del self._closed[next(iter(self._closed))]
        self._closed[claim_id] = (now, keys)

    def _oldest(self) -> float:
        return next(iter(self._closed.values()))[0]

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
        limit_to(Reach(system=True))  # a task of its own, on behalf of no request
        try:
            while self._hinted:
                hinted, self._hinted = self._hinted, {}
                try:
                    await self._store.give_back_tasks(list(hinted))
                except Unavailable as error:
                    logger.warning("strays wait: %s", error)
                    self._hinted = hinted | self._hinted
                    await asyncio.sleep(RETRY_S)
                else:
                    for offer in hinted.values():
                        offer()
        finally:
            self._giving_back = None
