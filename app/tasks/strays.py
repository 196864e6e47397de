"""Leases that a worker gave to a claim which was being answered at that moment: given back, never waited for.

The hint of such a lease arrives after the claim has left; when the hint is lost too, the sweep finds the
row. Without this a call that nobody has started would count as begun until its lease runs out.
"""

import time
from collections.abc import Callable, Sequence

from sandbox.store.interface import Task
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.tasks import TaskKey

REMEMBERED_S = 30.0
CLAIMS_MAX = 50_000


class Strays:
    def __init__(self, store: PostgresEdge, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._closed: dict[str, tuple[float, frozenset[TaskKey]]] = {}
        self._hinted: set[TaskKey] = set()
        self._waiting: set[str] = set()

    def opened(self, claim_id: str) -> None:
        """The claim waits here (again): what it is leased is its own."""
        self._waiting.add(claim_id)

    def closed(self, claim_id: str, answered: Sequence[Task]) -> None:
        """The claim has its answer: whatever else it is leased is a stray."""
        self._waiting.discard(claim_id)
        keys = frozenset(key_of(task) for task in answered)
        known = self._closed.pop(claim_id, None)
        if known is not None:  # the same claim again: both answers count
            keys |= known[1]
        if len(self._closed) >= CLAIMS_MAX:
            self._closed.pop(next(iter(self._closed)))
        self._closed[claim_id] = (self._clock(), keys)

    def on_hint(self, task: Task) -> None:
        self._hinted.add(key_of(task))

    async def sweep(self) -> None:
        """Release the strays of recent claims. Errors: Unavailable."""
        oldest = self._clock() - REMEMBERED_S
        self._closed = {claim: entry for claim, entry in self._closed.items() if entry[0] >= oldest}
        # A hint may come late for a task that the claim found by looking and was answered with.
        answered = frozenset[TaskKey]().union(*(keys for _, keys in self._closed.values()))
        strays, self._hinted = self._hinted - answered, set()
        if self._closed:
            strays |= {
                key
                for claim, key in await self._store.leased_to(list(self._closed))
                if claim in self._closed and claim not in self._waiting and key not in self._closed[claim][1]
            }
        if strays:
            keys = list(strays)
            await self._store.release_tasks(keys, [None] * len(keys))


def key_of(task: Task) -> TaskKey:
    return (task.namespace, task.run, task.call, task.attempt)
