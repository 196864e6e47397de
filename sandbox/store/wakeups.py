"""Waiting for something to look at: a run that changed, a call that was offered.

Register first, look second, wait third: then nothing is missed between the look and the wait. A wait ends
after POLL_MAX_S at the latest, hint or not.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

from sandbox.journal.ids import OrganizationId, RunId
from sandbox.store.hints import POLL_MAX_S, HintBus, Message


class Watch:
    """What one waiter waits on; `wait` returns when it is worth looking again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    @property
    def woken(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), min(timeout_s, POLL_MAX_S))
        self._event.clear()


class Wakeups:
    def __init__(self, hints: HintBus) -> None:
        self._runs: dict[str, list[Watch]] = defaultdict(list)
        self._tasks: dict[str, list[Watch]] = defaultdict(list)
        hints.on_message(self._on_hint)

    @contextlib.contextmanager
    def watch_run(self, run: RunId) -> Iterator[Watch]:
        """Woken when the run's journal grew or its status changed."""
        with self._watch(self._runs, run) as watch:
            yield watch

    @contextlib.contextmanager
    def watch_tasks(self, organization: OrganizationId) -> Iterator[Watch]:
        """Woken when a call of the organization was offered. Waiters are woken one per offered call."""
        with self._watch(self._tasks, organization) as watch:
            yield watch

    @contextlib.contextmanager
    def _watch(self, table: dict[str, list[Watch]], key: str) -> Iterator[Watch]:
        watch = Watch()
        table[key].append(watch)
        try:
            yield watch
        finally:
            table[key].remove(watch)
            if not table[key]:
                del table[key]

    def wake_run(self, run: RunId) -> None:
        for watch in self._runs.get(run, ()):
            watch.wake()

    def wake_tasks(self, organization: str, count: int) -> None:
        for watch in self._tasks.get(organization, ()):
            if count <= 0:
                return
            if not watch.woken:
                watch.wake()
                count -= 1

    def _on_hint(self, message: Message) -> None:
        kind = message.get("k")
        if kind == "run":
            self.wake_run(RunId(message.get("run", "")))
        elif kind == "tasks":
            self.wake_tasks(message.get("organization", ""), int(message.get("count", 1)))
