"""Rewind as one more peer: the driver that the peers' bench.py starts, on the interface of its common.py.

It is the customer's process: client and host-tool worker. The engine is a `rewind dev` that `peers.py` started.
Where a peer's driver kills itself because scripts run in it, here the process that runs scripts, the worker of
the server, is killed as well: both sides lose everything they had in memory at that step.

Environment: REWIND_BENCH_PEERS (folder of common.py), REWIND_BENCH_URL, REWIND_BENCH_KEY, REWIND_BENCH_SERVICES.
"""

import asyncio
import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), os.environ["REWIND_BENCH_PEERS"]]

from tests.bench import scripts  # noqa: E402 - the repository is found by the line above
from tests.bench.driver import TOOLSET, Driver, RunWentWrong  # noqa: E402

common: Any = importlib.import_module("common")
RECORDED_POLL_S = 0.005


class Peer:
    def __init__(self) -> None:
        self._driver = Driver(os.environ["REWIND_BENCH_URL"], os.environ["REWIND_BENCH_KEY"])
        self._runs: dict[str, str] = {}
        self._entered = 0
        self._dying: asyncio.Task[None] | None = None

    async def setup(self) -> None:
        self._driver.observe = self._on_call
        await self._driver.__aenter__()
        if common.REC_FROM < 0:  # a script is known before its runs are measured, as the peers' functions are
            await self._driver.steps(0)

    async def run(self, steps: int) -> None:
        await self._driver.steps(steps)

    async def fan(self, calls: int) -> None:
        await self._driver.fan(calls)

    async def start_wait(self, name: str) -> None:
        self._runs[name] = await self._driver.start_waiting()
        self._entered += 1

    async def signal(self, name: str) -> None:
        await self._driver.signal(self._runs[name])

    async def result(self, name: str) -> None:
        await self._driver.ended(self._runs[name])

    def entered(self) -> int:
        return self._entered

    async def start1000(self, tag: str) -> None:
        """Start the run, or find it: the same key with the very same body, so the script goes as its source."""
        run = await self._driver.client.runs.start(
            script=scripts.STEPS, toolset=TOOLSET, input={"steps": common.W3_N}, idempotency_key=tag
        )
        self._runs[tag] = run.id

    async def attach(self, tag: str) -> None:
        if tag not in self._runs:
            common.on_enter()
            await self.start1000(tag)
        await self._driver.ended(self._runs[tag])

    def _on_call(self, run: str, i: int, _at: float) -> None:
        common.step_body(i)
        if i == common.KILL_AT and self._dying is None:
            self._dying = asyncio.create_task(self._die(run, i))

    async def _die(self, run: str, step: int) -> None:
        """Kill the worker, and this process as soon as the step's outcome is recorded: no lease is left open."""
        services = json.loads(Path(os.environ["REWIND_BENCH_SERVICES"]).read_text())
        os.kill(services["pids"]["worker"], signal.SIGKILL)
        while True:
            entries = await self._driver.client.runs.journal(run, after=2 * step)
            if any(
                entry["type"] == "tool_call_completed" and entry.get("call") == step + 1 for entry in entries
            ):
                break
            await asyncio.sleep(RECORDED_POLL_S)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    try:
        asyncio.run(common.main(Peer()))
    except RunWentWrong as error:
        sys.exit(f"rewind: {error}")
