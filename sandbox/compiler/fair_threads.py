"""Threads that customers take turns at, so that who asks for a thousand things at once stands before nobody else.

Whose work it is, is said once for a task (`on_behalf_of`). A thread takes the next thing of whoever has waited
longest for a turn, and nobody has two threads while they are fewer than would be left for others. Whoever was found
to waste them (`note_waste`) shares one with all others of that kind.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from sandbox.customers import owner

WASTEFUL_S = 600.0
"""How long somebody is remembered as wasteful."""
WASTEFUL_MAX = 10_000

Result = TypeVar("Result")
_Job = tuple[Callable[[], Any], "Future[Any]"]


class FairThreads:
    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._each = max(1, threads - 1)
        """How many threads one customer may have at a time."""
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[_Job]] = OrderedDict()
        """By customer; whose turn is next is first."""
        self._running: Counter[str] = Counter()
        self._wasteful: OrderedDict[str, float] = OrderedDict()

    async def run(self, work: Callable[[], Result]) -> Result:
        """Call `work` in a thread when its customer has a turn."""
        done: Future[Result] = Future()
        with self._lock:
            self._waiting.setdefault(owner(), deque()).append((work, done))
        self._threads.submit(self._work)
        return await asyncio.wrap_future(done)

    def note_waste(self) -> None:
        """The current task's customer has wasted a thread."""
        with self._lock:
            self._wasteful.pop(owner(), None)
            self._wasteful[owner()] = time.monotonic() + WASTEFUL_S
            if len(self._wasteful) > WASTEFUL_MAX:
                self._wasteful.popitem(last=False)

    def _work(self) -> None:
        """All that may be done now: what may not, is done by the thread that is in its way, afterwards."""
        while (taken := self._take()) is not None:
            mine, (work, done) = taken
            try:
                if done.set_running_or_notify_cancel():
                    _settle(done, work)
            finally:
                with self._lock:
                    self._running[mine] -= 1
                    if not self._running[mine]:
                        del self._running[mine]

    def _take(self) -> tuple[str, _Job] | None:
        with self._lock:
            now = time.monotonic()
            crowded = any(self._is_wasteful(mine, now) for mine, number in self._running.items() if number)
            for mine, jobs in self._waiting.items():
                if self._running[mine] >= self._each or (crowded and self._is_wasteful(mine, now)):
                    continue
                job = jobs.popleft()
                del self._waiting[mine]
                if jobs:
                    self._waiting[mine] = jobs
                self._running[mine] += 1
                return mine, job
            return None

    def _is_wasteful(self, mine: str, now: float) -> bool:
        return self._wasteful.get(mine, 0.0) > now


def _settle(done: "Future[Any]", work: Callable[[], Any]) -> None:
    try:
        result = work()
    except BaseException as error:  # it is whoever waits that it happened to
        done.set_exception(error)
    else:
        done.set_result(result)
