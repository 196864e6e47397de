"""What a host tool is told about the call that it serves."""

import asyncio
import logging
import threading
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from rewind._types import Duration, Task, duration_ms

_logger = logging.getLogger("rewind.tools")


class CancelSignal:
    """Set when the run no longer wants the call: it was cancelled, timed out, or the lease is lost.

    The tool decides what to do; its outcome is recorded if it comes within 30 s. Usable from coroutines
    (`await signal.wait()`) and from threads (`signal.wait_blocking()`).
    """

    __slots__ = ("_for_coroutines", "_for_threads", "_set", "reason")

    def __init__(self) -> None:
        self._set = False
        self._for_coroutines: asyncio.Event | None = None
        self._for_threads: threading.Event | None = None
        self.reason: str | None = None

    @property
    def cancelled(self) -> bool:
        return self._set

    def is_set(self) -> bool:
        return self._set

    def set(self, reason: str) -> None:
        """Called on the worker's loop."""
        if self._set:
            return
        self.reason = reason
        self._set = True
        if self._for_coroutines is not None:
            self._for_coroutines.set()
        if self._for_threads is not None:
            self._for_threads.set()

    async def wait(self) -> None:
        if self._for_coroutines is None:
            self._for_coroutines = asyncio.Event()
        if not self._set:
            await self._for_coroutines.wait()

    def wait_blocking(self, timeout_s: float | None = None) -> bool:
        """For tools that run in a thread: block until cancelled or `timeout_s` is over; true when cancelled."""
        event = self._for_threads
        if event is None:
            event = self._for_threads = threading.Event()
        if self._set:
            return True
        return event.wait(timeout_s)


@dataclass(frozen=True, slots=True)
class Deferred:
    """What `ctx.defer()` gives: the answer comes later, by `client.tasks.complete(ctx.token, result)`."""

    expires: int | str | None = None


@dataclass(slots=True)
class ToolContext:
    """`ctx` of a host tool: whose call this is, and its key, log and signal.

    `signal` tells that the call is not wanted any more; `log` names run, call and tool in each line; `attempt` counts
    from 1; `defer()` leaves the answer for later.
    """

    task: Task
    signal: CancelSignal = field(default_factory=CancelSignal)
    deferred: Deferred | None = None

    @property
    def run(self) -> str:
        return self.task.run

    @property
    def namespace(self) -> str:
        return self.task.namespace

    @property
    def call(self) -> int:
        return self.task.call

    @property
    def tool(self) -> str:
        return self.task.tool

    @property
    def attempt(self) -> int:
        return self.task.attempt

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of this call: give it to the service that must not act twice."""
        return self.task.idempotency_key

    @property
    def labels(self) -> dict[str, str]:
        return self.task.labels

    @property
    def token(self) -> str:
        return self.task.token

    @property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        return _CallLogger(_logger, {"run": self.run, "call": self.call, "tool": self.tool})

    def defer(self, expires: Duration | None = None) -> Deferred:
        """Leave the call open when this function returns; someone completes it later with `ctx.token`.

        Keep the token before returning. `expires`: after that the call fails.
        """
        self.deferred = Deferred(None if expires is None else duration_ms(expires))
        return self.deferred


class _CallLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        extra = self.extra or {}
        kwargs["extra"] = {**extra, **(kwargs.get("extra") or {})}
        return f"{extra['tool']} #{extra['call']} of {extra['run']}: {msg}", kwargs
