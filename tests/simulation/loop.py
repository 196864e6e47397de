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
STEPS_AT_ONCE = 100

PROCESS: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """What dies and pauses as one: tasks, their timers, their handlers of hints."""

    def __init__(self, loop: "SimLoop", name: str, *, mortal: bool = True, skew_s: float = 0.0) -> None:
        self.name = name
        self.mortal = mortal
        self.dead = False
        self.frozen: list[asyncio.Handle] | None = None
        self.on_death: list[Callable[[], None]] = []
        self.skew_s = skew_s
        """How far its host's clock is off."""
        self.dies_in = self.pauses_in = -1
        """So many steps from now; below 0: never."""
        self.term = asyncio.Event()
        """It is told to leave, as by SIGTERM."""
        self._loop = loop
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def clock(self) -> float:
        return self._loop.now_s + self.skew_s

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = self._loop.create_task(work, context=self.context.copy())
        task.add_done_callback(self._loop.ended)
        return task

    def soon(self, delay_s: float, handler: Callable[..., object], *args: object) -> None:
        """Call a handler in this process a little later, if it lives then."""
        self._loop.call_at(self._loop.now_s + delay_s, handler, *args, context=self.context.copy())

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
        self.before_step: Callable[[Process, asyncio.Handle], None] | None = None
        """Called before a mortal process takes a step: here it may be killed."""
        self.faults: list[str] = []
        """What nobody caught."""
        self.fatal: BaseException | None = None
        """An invariant does not hold: the simulation is over, whoever would go on."""
        self._ready: list[asyncio.Handle] = []  # type: ignore[assignment]
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_made = 0
        self.set_exception_handler(self._uncaught)
        self.set_task_factory(self._task)

    def time(self) -> float:
        return self.now_s

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._timers, (when, self._timers_made, timer))
        return timer

    def _run_once(self) -> None:
        for _ in range(STEPS_AT_ONCE):
            self._step()
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _step(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise AssertionError("the simulation turns in circles")
        ready, timers = self._ready, self._timers
        while timers and (not ready or timers[0][0] <= self.now_s):
            when, _, timer = heapq.heappop(timers)
            if not timer._cancelled:  # type: ignore[attr-defined]
                self.now_s = max(self.now_s, when)
                ready.append(timer)
        if not ready:
            raise AssertionError("everything waits for something that will never happen")
        if len(ready) > 1:
            at = int(self.random.random() * len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
        handle = ready.pop()
        if handle._cancelled:  # type: ignore[attr-defined]
            return
        process = handle._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is not None:
            if process.mortal and not process.dead and self.before_step is not None:
                self.before_step(process, handle)
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
        self._timers.clear()

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""
