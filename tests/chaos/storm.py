"""One thing after the other is broken at random, and it is written down what and when."""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

import psutil

from tests.chaos.cluster import Cluster
from tests.e2e.stack import pause

PAUSED_S = 12.0
"""Longer than a worker may be silent (10 s): it is superseded, and finds out when it goes on."""
SHORT_S = 2.0
HELD_S = 1.5
JUMP_MS = 4_000


class Storm:
    """`await storm.blow(seconds)`: about one break a second; `history` says what was done when."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._under_way: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self.history: list[str] = []
        self.done: Counter[str] = Counter()
        self.failures: list[str] = []
        self._breaks: list[tuple[int, Callable[[], Awaitable[str | None]]]] = [
            (4, self._kill_worker),
            (4, self._kill_child),
            (3, self._kill_serve),
            (2, self._kill_hosts),
            (2, self._restart_postgres),
            (4, self._cut_some),
            (2, self._cut_all),
            (1, self._hold),
            (1, self._refuse),
            (2, self._pause_worker),
            (2, self._pause_serve),
            (1, self._pause_hosts),
            (1, self._pause_child),
            (2, self._terminate),
            (1, self._jump),
        ]

    async def blow(self, seconds: float) -> None:
        """Break things for so long, then let everything come to rest: nothing stays stopped."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        turn = 0
        while loop.time() - began < seconds:
            await self._break_something(loop.time() - began)
            turn += 1
            await pause(max(0.0, began + turn - loop.time()))
        self._stop.set()
        if self._under_way:
            await asyncio.gather(*self._under_way)

    async def _break_something(self, at_s: float) -> None:
        weights = [weight for weight, _ in self._breaks]
        while True:
            act = self._rng.choices(self._breaks, weights)[0][1]
            name = act.__name__.strip("_")
            if (target := await act()) is not None:
                break
        self.done[name] += 1
        self.history.append(f"{at_s:6.1f} s  {name.replace('_', ' ')} {target}")

    # -- Kills

    def _one(self, kind: str) -> str | None:
        standing = self._cluster.standing(kind)
        return self._rng.choice(standing) if standing else None

    def _kill(self, kind: str) -> str | None:
        name = self._one(kind)
        if name is not None:
            self._cluster.kill(name)
        return name

    async def _kill_worker(self) -> str | None:
        return self._kill("worker")

    async def _kill_serve(self) -> str | None:
        return self._kill("serve")

    async def _kill_hosts(self) -> str | None:
        return self._kill("hosts")

    async def _kill_child(self) -> str | None:
        return self._cluster.kill_child(self._rng)

    async def _terminate(self) -> str | None:
        """SIGTERM, and a successor when it has left."""
        name = self._one(self._rng.choice(["worker", "serve", "hosts"]))
        if name is not None:
            self._in_background(self._terminated(name))
        return name

    async def _terminated(self, name: str) -> None:
        code = await self._cluster.terminate(name)
        if code not in {0, -signal.SIGTERM}:  # the latter: before it had begun to listen to signals
            self.failures.append(f"{name} left with {code} after SIGTERM")

    async def _restart_postgres(self) -> str | None:
        self._in_background(self._cluster.restart_postgres())
        return "with kill -9"

    # -- Connections

    async def _cut_some(self) -> str | None:
        return f"{self._cluster.proxy.cut(self._rng, 0.3)} connections"

    async def _cut_all(self) -> str | None:
        return f"{self._cluster.proxy.cut(self._rng)} connections"

    async def _hold(self) -> str | None:
        """The database hangs for a moment."""
        self._cluster.proxy.hold()
        self._in_background(self._let_go())
        return f"all connections for {HELD_S} s"

    async def _refuse(self) -> str | None:
        self._cluster.proxy.refuse()
        self._cluster.proxy.cut(self._rng)
        self._in_background(self._let_go())
        return f"all connections for {HELD_S} s"

    async def _let_go(self) -> None:
        await self._elapsed(HELD_S)
        self._cluster.proxy.let_go()

    # -- Pauses and time

    async def _pause_worker(self) -> str | None:
        return self._pause("worker", PAUSED_S)

    async def _pause_serve(self) -> str | None:
        if len(self._cluster.standing("serve", age_s=0)) < 2:
            return None
        return self._pause("serve", self._rng.choice([SHORT_S, PAUSED_S]))

    async def _pause_hosts(self) -> str | None:
        return self._pause("hosts", self._rng.choice([SHORT_S, PAUSED_S]))

    async def _pause_child(self) -> str | None:
        children = self._cluster.children()
        if not children:
            return None
        child = self._rng.choice(children)
        with contextlib.suppress(psutil.NoSuchProcess):
            child.suspend()
        self._in_background(self._resumed(child))
        return str(child.pid)

    async def _resumed(self, child: psutil.Process) -> None:
        await self._elapsed(SHORT_S)
        self._cluster.resume(child)

    def _pause(self, kind: str, seconds: float) -> str | None:
        name = self._one(kind)
        if name is not None:
            self._in_background(self._cluster.freeze(name, asyncio.ensure_future(self._elapsed(seconds))))
            return f"{name} for {seconds:g} s"
        return None

    async def _jump(self) -> str | None:
        """The database's clock goes forward."""
        self._in_background(self._cluster.database.advance(JUMP_MS))
        return f"of the clock by {JUMP_MS} ms"

    async def _elapsed(self, seconds: float) -> None:
        """So long, or to the end of the storm."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return

    def _in_background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
