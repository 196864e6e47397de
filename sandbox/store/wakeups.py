"""Waiting for something to look at: a run that changed, a call that was offered.

Register first, look second, wait third: then nothing is missed between the look and the wait. A wait ends
after POLL_MAX_S at the latest, hint or not.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

from sandbox.journal.ids import RunId
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.interface import TaskFilter


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

    def _on_hint(self, message: Message) -> None:
        kind = message.get("k")
        if kind == "run":
            self.wake_run(RunId(message["run"]))
        elif kind == "tasks":
            for tool in message["tools"]:
                self.wake_task(message["organization"], message["namespace"], message["toolset"], tool)
