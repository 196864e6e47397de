"""The customer's side of every workload: a client, and a host-tool worker in the same process.

The one tool, `echo`, returns its argument. Its calls can be observed: that is how steps are timed.
"""

import asyncio
import itertools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import rewind

from tests.bench import scripts

NAMESPACE = "bench"
TOOLSET = "bench"
SLOTS = 128
WAIT_MS = 55_000
ECHO_SCHEMA = {
    "type": "object",
    "properties": {"i": {"type": "integer"}},
    "required": ["i"],
    "additionalProperties": False,
}
Observer = Callable[[str, int, float], None]
"""Called with (run, i, time) when a call reaches the tool."""


class RunWentWrong(Exception):
    """A run of a workload did not complete: its figures mean nothing."""


class Driver:
    """`async with Driver(url, api_key):` ready to start runs."""

    def __init__(self, url: str, api_key: str) -> None:
        self.client = rewind.AsyncRewind(
            api_key=api_key, base_url=url, namespace=NAMESPACE, timeout=60, max_retries=10
        )
        self.observe: Observer | None = None
        self._digests: dict[str, str] = {}
        self._counter = itertools.count()
        tool = rewind.tool(name="echo", description="Returns its argument.", input_schema=ECHO_SCHEMA)
        self._echo = tool(self._serve_echo)
        self._worker = self.client.worker(tools=[self._echo], toolset=TOOLSET, max_slots=SLOTS)

    async def __aenter__(self) -> Self:
        await self.client.toolsets.register(TOOLSET, tools=[self._echo])
        await self._worker.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._worker.__aexit__(kind, error, trace)
        await self.client.aclose()

    async def _serve_echo(self, args: dict[str, Any], ctx: rewind.ToolContext) -> dict[str, Any]:
        if self.observe is not None:
            self.observe(ctx.run, args["i"], time.perf_counter())
        return args

    async def start(self, source: str, value: Any = None, **options: Any) -> rewind.Run:
        """Start a run; from the second one on the script is sent as its digest, as a known script is."""
        script = self._digests.get(source, source)
        run = await self.client.runs.start(script=script, toolset=TOOLSET, input=value, **options)
        if source not in self._digests and run.script is not None:
            self._digests[source] = run.script
        return run

    async def run(self, source: str, value: Any = None, **options: Any) -> rewind.Run:
        """Start a run and wait for its end."""
        return await self.ended(await self.start(source, value, wait=WAIT_MS, **options))

    async def ended(self, run: rewind.Run | str) -> rewind.Run:
        if isinstance(run, str):
            run = await self.client.runs.wait(run)
        elif run.status == "active":
            run = await self.client.runs.wait(run.id)
        if run.status != "completed":
            raise RunWentWrong(f"run {run.id} is {run.status}: {run.raw.get('error')}")
        return run

    async def steps(self, count: int, **options: Any) -> rewind.Run:
        return await self.run(scripts.STEPS, {"steps": count}, **options)

    async def fan(self, count: int) -> rewind.Run:
        return await self.run(scripts.FAN, {"calls": count})

    async def start_waiting(self) -> str:
        """Start a run that waits for the signal `go`; returned when it does wait."""
        run = await self.start(scripts.WAIT, wait=WAIT_MS, until="blocked")
        if run.status != "active":
            raise RunWentWrong(f"run {run.id} is {run.status} instead of waiting: {run.raw.get('error')}")
        return run.id

    async def signal(self, run: str) -> None:
        await self.client.runs.signal(run, "go", {"n": next(self._counter)})

    async def warm_up(self, *, limit_s: float, rounds: int = 30) -> None:
        give_up = time.perf_counter() + limit_s
        for _ in range(rounds):
            if time.perf_counter() > give_up:
                return
            await self.steps(0)
            await self.steps(10)


class CallTimes:
    """While entered, records when each call reached the tool: `times[run][i]`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.times: dict[str, dict[int, float]] = {}
        self._waiters: dict[tuple[str, int], asyncio.Future[float]] = {}

    def __enter__(self) -> Self:
        self._driver.observe = self._note
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.observe = None

    def _note(self, run: str, i: int, at: float) -> None:
        self.times.setdefault(run, {}).setdefault(i, at)
        waiter = self._waiters.pop((run, i), None)
        if waiter is not None and not waiter.done():
            waiter.set_result(at)

    async def reached(self, run: str, i: int) -> float:
        """Wait until call `i` of the run reached the tool, and return when that was."""
        known = self.times.get(run, {}).get(i)
        if known is not None:
            return known
        waiter = self._waiters.setdefault((run, i), asyncio.get_running_loop().create_future())
        return await waiter

    def gaps(self, *, first: int = 0, last: int | None = None) -> list[float]:
        """Return the times between consecutive calls of each run, in seconds, calls `first` to `last` only."""
        found = []
        for calls in self.times.values():
            wanted = [at for i, at in sorted(calls.items()) if i >= first and (last is None or i <= last)]
            found += [after - before for before, after in itertools.pairwise(wanted)]
        return found
