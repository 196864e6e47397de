"""An event loop without a clock and without chance: virtual time, and a ready queue ordered by the seed.

Callbacks belong to processes. A killed process never runs again, not even its `finally` blocks, as after kill -9;
a paused one is set aside until it goes on, as after SIGSTOP, while the world's time passes it by.
"""

import asyncio
import contextlib
import contextvars
import heapq
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

STEPS_MAX = 2_000_000
"""A simulation that takes more steps turns in circles."""

_PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """What dies and pauses as one: tasks, their timers, their handlers of hints."""

    def __init__(self, loop: "SimLoop", name: str, *, mortal: bool = True) -> None:
        self.name = name
        self.mortal = mortal
        self.dead = False
        self.frozen: list[asyncio.Handle] | None = None
        self.on_death: list[Callable[[], None]] = []
        self._loop = loop
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self._loop.create_task(work, context=self.context.copy())
        task.add_done_callback(self._loop.ended)
        return task

    def soon(self, delay_s: float, handler: Callable[..., object], *args: object) -> None:
        """Call a handler in this process a little later, if it lives then."""
        self._loop.call_later(delay_s, handler, *args, context=self.context.copy())

    def kill(self) -> None:
        if self.dead:
            return
        self.dead = True
        self.frozen = None
        for handler in self.on_death:
            handler()

    def pause(self) -> None:
        if not self.dead and self.frozen is None:
            self.frozen = []

    def resume(self) -> None:
        if self.frozen is not None:
            self._loop._ready.extend(self.frozen)
            self.frozen = None


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random
        self.now_s = 0.0
        self.steps = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self.before_step: Callable[[Process], None] | None = None
        """Called before a mortal process takes a step: here it may be killed."""
        self.faults: list[str] = []
        """What nobody caught."""
        self.fatal: BaseException | None = None
        """An invariant does not hold: the simulation is over, whoever would go on."""
        self._ready: list[asyncio.Handle] = []  # type: ignore[assignment]
        self.set_exception_handler(self._uncaught)
        self.set_task_factory(self._task)

    def time(self) -> float:
        return self.now_s

    def _run_once(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise AssertionError("the simulation turns in circles")
        while self._scheduled and (not self._ready or self._scheduled[0]._when <= self.now_s):  # type: ignore[attr-defined]
            timer = heapq.heappop(self._scheduled)  # type: ignore[attr-defined]
            timer._scheduled = False
            if not timer._cancelled:
                self.now_s = max(self.now_s, timer._when)
                self._ready.append(timer)
        if not self._ready:
            raise AssertionError("everything waits for something that will never happen")
        at = self.random.randrange(len(self._ready)) if len(self._ready) > 1 else 0
        self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
        handle = self._ready.pop()
        if handle._cancelled:
            return
        process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
        if process is not None:
            if process.mortal and not process.dead and self.before_step is not None:
                self.before_step(process)
            if process.dead:
                return
            if process.frozen is not None:
                process.frozen.append(handle)
                return
        handle._run()

    def ended(self, task: "asyncio.Task[Any]") -> None:
        """A process whose main task fails is a bug, of ours or of the simulation."""
        if not task.cancelled() and task.exception() is not None:
            self.fatal = task.exception()

    def _task(self, _loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> "asyncio.Task[Any]":
        task = asyncio.Task(work, loop=self, **options)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # the dead leave their tasks behind
        self.tasks.append(task)
        return task

    def _uncaught(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.faults.append(f"{context['message']}: {context.get('exception')!r}")

    def bury(self) -> None:
        """Let go of all tasks; whatever they do about it touches nobody any more."""
        asyncio.events._set_running_loop(self)
        for task in self.tasks:
            if not task.done():
                with contextlib.suppress(RuntimeError):  # it would rather go on
                    task.get_coro().close()  # type: ignore[union-attr]
        asyncio.events._set_running_loop(None)
        self._ready.clear()
        self._scheduled.clear()  # type: ignore[attr-defined]

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""
