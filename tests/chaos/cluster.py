"""Everything that a chaos test kills: Postgres behind a proxy, two `serve`, workers, and the customer's host tools."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Self

import httpx2
import psutil

from infra.embedded_postgres import EmbeddedPostgres
from tests.chaos.proxy import Proxy
from tests.e2e.stack import REPOSITORY, Database, Process, Stack
from tests.fixtures.mcp_server import McpProcess

HOSTS_START_S = 60


class Tools(Process):
    """A customer's worker process: `tests.chaos.host_tools`."""

    def __init__(self, url: str, key: str, world: str, log: Path) -> None:
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.host_tools", url, key, world],
                env={name: value for name, value in os.environ.items() if not name.startswith("REWIND_")},
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


class World(McpProcess):
    """The process in which effects happen; nobody kills it."""

    module = "tests.chaos.tool_server"

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Cluster(Stack):
    """`async with Cluster(...)`: all of it, and ways to break it. `parts` are the processes that may be killed."""

    def __init__(
        self,
        postgres: EmbeddedPostgres,
        proxy: Proxy,
        s3_url: str,
        folder: Path,
        *,
        serves: int,
        workers: int,
        hosts: int,
    ) -> None:
        through = postgres.url().replace(str(postgres.socket_dir), str(proxy.folder))
        super().__init__(
            through, s3_url, folder, workers=workers, environ={"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}
        )
        self.database = Database(postgres.url())
        self._others = [f"serve-{index}" for index in range(1, serves)]
        self._others += [f"hosts-{index}" for index in range(hosts)]
        self.postgres = postgres
        self.proxy = proxy
        self.world = World(folder / "effects.jsonl")
        self.parts: dict[str, Process] = {}
        self.paused: set[str] = set()
        self.released: list[str] = []
        self.took: dict[str, float] = {}
        self._started_at: dict[str, float] = {}
        self._restarting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        with self.timed("start"):
            self.world.start()
            return await super().__aenter__()

    @contextlib.contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.took[what] = time.monotonic() - began

    async def __aexit__(self, *details: object) -> None:
        for part in self.parts.values():
            part.kill()
        self.world.kill()
        await super().__aexit__(*details)

    async def _start(self) -> None:
        await super()._start()
        for name in self._others:
            self.launch(name)
        self._started_at = dict.fromkeys(self.parts, 0.0)

    def start_serve(self) -> None:
        self.serve = self.launch("serve-0")

    def start_worker(self) -> Process:
        worker = self.launch(f"worker-{len(self.workers)}")
        self.workers.append(worker)
        return worker

    def launch(self, name: str) -> Process:
        """Start a part, or its successor."""
        kind, _, index = name.partition("-")
        log = self.folder / f"{name}.log"
        if kind == "serve":
            process = Process("serve", self._environ, log, fds=(self._listener.fileno(),))
        elif kind == "worker":
            # One worker keeps nothing warm: it replays for each event.
            cold = {"REWIND_WARM_RUNS": "0"} if index == "0" else {}
            process = Process("worker", {**self._environ, **cold}, log)
        else:
            process = Tools(self.url, self.api_key, self.world.base, log)
        self.parts[name] = process
        self._started_at[name] = asyncio.get_running_loop().time()
        return process

    # -- Breaking

    def standing(self, kind: str, *, age_s: float = 3.0) -> list[str]:
        """Parts of a kind that were not killed or paused a moment ago."""
        now = asyncio.get_running_loop().time()
        return [
            name
            for name in self.parts
            if name.startswith(kind) and name not in self.paused and now - self._started_at[name] >= age_s
        ]

    def kill(self, name: str) -> None:
        self.parts[name].kill()
        self.launch(name)

    async def terminate(self, name: str) -> int:
        """SIGTERM, as a rolling deploy does; its successor starts when it has left."""
        self.paused.add(name)
        try:
            code = await asyncio.to_thread(self.parts[name].stop, 40)
        finally:
            self.paused.discard(name)
        self.launch(name)
        return code

    async def freeze(self, name: str, seconds: asyncio.Future[None]) -> None:
        """SIGSTOP until `seconds` is done, then SIGCONT."""
        self.paused.add(name)
        pid = self.parts[name].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            await seconds
        finally:
            os.kill(pid, signal.SIGCONT)
            self.paused.discard(name)
            self._started_at[name] = asyncio.get_running_loop().time()

    def children(self) -> list[psutil.Process]:
        """The confined processes of all workers: V8 and type checkers."""
        found: list[psutil.Process] = []
        for name in self.standing("worker"):
            try:
                found += psutil.Process(self.parts[name].pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
        return found

    def kill_child(self, rng: Random) -> str:
        children = self.children()
        if not children:
            return "no child"
        child = rng.choice(children)
        try:
            child.kill()
        except psutil.NoSuchProcess:
            return "a child that had gone"
        return f"child {child.pid}"

    def resume(self, child: psutil.Process) -> None:
        """SIGCONT to a stopped child, if its worker has not been killed with it."""
        with contextlib.suppress(psutil.NoSuchProcess):
            child.resume()

    async def restart_postgres(self) -> None:
        """kill -9 of the postmaster; what comes up again recovers from its log."""

        def restart() -> None:
            os.kill(self.postgres.pid, signal.SIGKILL)
            self.postgres.stop()
            self.postgres.start()

        async with self._restarting:
            await asyncio.to_thread(restart)

    async def release(self, run: str, namespace: str) -> None:
        """What an operator does with a quarantined run whose trouble has passed."""
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False, timeout=30) as client:
            answer = await client.post(
                f"/v1/runs/{run}/release",
                params={"namespace": namespace},
                json={"reason": "the storm is over"},
                headers={"Authorization": f"Bearer {self.api_key}"},
            )
            answer.raise_for_status()
        self.released.append(run)

    # -- Looking

    def ended_by_themselves(self) -> dict[str, Any]:
        """Parts that nobody killed and that are gone."""
        return {
            name: part.popen.returncode
            for name, part in self.parts.items()
            if name not in self.paused and not part.alive
        }
