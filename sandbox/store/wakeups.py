"""Waiting for something to look at: a run that changed, a call that was offered.

Register first, look second, wait third: then nothing is missed between the look and the wait. A wait ends
after POLL_MAX_S at the latest, hint or not.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from sandbox.journal.ids import RunId
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.interface import Task, TaskFilter
from sandbox.store.leases import leased_task, park_message, unpark_message

ANNOUNCE_S = 0.8
"""How often a parked claim is named to the workers."""


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


class ParkedWatch(Watch):
    """A claim that waits: workers may lease new calls to it; `tasks` are those that came with a hint."""

    def __init__(self, announce: Callable[[], None]) -> None:
        super().__init__()
        self.tasks: list[Task] = []
        self._announce = announce
        self._announced_at = time.monotonic()
        announce()

    def take(self) -> list[Task]:
        """The tasks that workers have leased to this claim since the last look."""
        taken, self.tasks = self.tasks, []
        return taken

    async def wait(self, timeout_s: float) -> None:
        now = time.monotonic()
        if now - self._announced_at >= ANNOUNCE_S:
            self._announced_at = now
            self._announce()
        await super().wait(timeout_s)


class Wakeups:
    def __init__(self, hints: HintBus) -> None:
        self._hints = hints
        self._parked: dict[str, ParkedWatch] = {}
        self.on_stray: Callable[[Task], None] | None = None
        """Called with a task that was leased to a claim which does not wait here any more."""
        self._runs: dict[str, list[Watch]] = defaultdict(list)
        self._tasks: dict[str, list[tuple[TaskFilter, Watch]]] = defaultdict(list)
        hints.on_message(self._on_hint)

    @contextlib.contextmanager
    def watch_run(self, run: RunId) -> Iterator[Watch]:
        """Woken when the run's journal grew or its status changed."""
        watch = Watch()
        self._runs[run].append(watch)
        try:
            yield watch
        finally:
            self._runs[run].remove(watch)
            if not self._runs[run]:
                del self._runs[run]

    @contextlib.contextmanager
    def watch_tasks(self, wanted: TaskFilter) -> Iterator[Watch]:
        """Woken when a call that the filter lets through was offered: one waiter for each call."""
        pair = (wanted, Watch())
        self._tasks[wanted.organization].append(pair)
        try:
            yield pair[1]
        finally:
            self._tasks[wanted.organization].remove(pair)
            if not self._tasks[wanted.organization]:
                del self._tasks[wanted.organization]

    @contextlib.contextmanager
    def park(self, wanted: TaskFilter, claim_id: str, slots: int) -> Iterator[ParkedWatch]:
        """Wait as a claim that workers know of: a new call may be leased to it as it is recorded."""
        watch = ParkedWatch(
            lambda: self._hints.send("worker", park_message(claim_id, wanted, slots, self._hints.address))
        )
        self._parked[claim_id] = watch
        self._tasks[wanted.organization].append((wanted, watch))
        try:
            yield watch
        finally:
            del self._parked[claim_id]
            self._hints.send("worker", unpark_message(claim_id, wanted))
            self._tasks[wanted.organization].remove((wanted, watch))
            if not self._tasks[wanted.organization]:
                del self._tasks[wanted.organization]

    def wake_run(self, run: RunId) -> None:
        for watch in self._runs.get(run, ()):
            watch.wake()

    def wake_task(self, organization: str, namespace: str, toolset: str | None, tool: str) -> None:
        for wanted, watch in self._tasks.get(organization, ()):
            if (
                not watch.woken
                and wanted.namespace in {None, namespace}
                and wanted.toolset in {None, toolset}
                and (wanted.tools is None or tool in wanted.tools)
            ):
                watch.wake()
                return

    def _on_leased(self, message: Message) -> None:
        watch = self._parked.get(message["claim"])
        if watch is not None:
            if message["body"] is not None:
                watch.tasks.append(leased_task(message))
            watch.wake()
        elif self.on_stray is not None and message["body"] is not None:
            self.on_stray(leased_task(message))

    def _on_hint(self, message: Message) -> None:
        kind = message.get("k")
        if kind == "leased":
            self._on_leased(message)
            return
        if kind == "run":
            self.wake_run(RunId(message["run"]))
        elif kind == "tasks":
            for tool in message["tools"]:
                self.wake_task(message["organization"], message["namespace"], message["toolset"], tool)
