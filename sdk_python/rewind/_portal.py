"""The blocking face: one daemon thread with an event loop, on which the asynchronous client does the work.

It works inside and outside of running event loops, and from any number of threads.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any, TypeVar

from rewind._core import AsyncCore, Call, Decoded
from rewind._types import CallOptions, Entry

T = TypeVar("T")


class Portal:
    """Runs coroutines on its own loop thread, which is started by the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until `work` is done. An interrupt (Ctrl-C) cancels it on the loop before it is raised here."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or self._pid != os.getpid():
            return
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._pid != os.getpid():  # a fork has the object but not the thread
                self._loop = asyncio.new_event_loop()
                self._pid = os.getpid()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="rewind-client", daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class Core:
    """`AsyncCore` for the blocking resources."""

    def __init__(self, inner: AsyncCore, portal: Portal) -> None:
        self.inner = inner
        self.portal = portal
        self.config = inner.config

    def call(self, call: Call, options: CallOptions) -> Decoded:
        return self.portal.run(self.inner.call(call, options))

    def text(self, call: Call, options: CallOptions) -> str:
        return self.portal.run(self.inner.text(call, options))

    def entries(self, call: Call, options: CallOptions, after: int | None) -> Generator[Entry, None, None]:
        """One step of the asynchronous iterator at a time, on the loop's thread."""
        steps = self.inner.entries(call, options, after)
        try:
            while (entry := self.portal.run(_next(steps))) is not None:
                yield entry
        finally:
            self.portal.run(_closed(steps))

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self.portal.run(self.inner.aclose())
        self.portal.close()


async def _next(steps: AsyncGenerator[Entry, None]) -> Entry | None:
    return await anext(steps, None)


async def _closed(steps: AsyncGenerator[Entry, None]) -> None:
    await steps.aclose()
