"""The runs that somebody follows: only of these is every append told, the others cost no hint."""

import time
from collections.abc import Callable

from sandbox.journal.ids import RunId
from sandbox.store.hints import Message
from sandbox.store.wakeups import WATCHED_S

RUNS_MAX = 100_000
"""Beyond it a watcher learns of appends by its own poll."""


class WatchedRuns:
    """Every api names its watched runs about once a second; one not named any more is forgotten."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._named_at: dict[RunId, float] = {}
        self._tidied_at = clock()

    def on_watch(self, message: Message) -> None:
        now = self._clock()
        if now - self._tidied_at > WATCHED_S:
            self._tidied_at = now
            self._named_at = {run: at for run, at in self._named_at.items() if now - at <= WATCHED_S}
        if len(self._named_at) < RUNS_MAX:
            self._named_at.update((RunId(run), now) for run in message["runs"])

    def __contains__(self, run: RunId) -> bool:
        named_at = self._named_at.get(run)
        return named_at is not None and self._clock() - named_at <= WATCHED_S
