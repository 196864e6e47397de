"""The system under measurement: a real `rewind dev` on a folder of its own.

Settings of the environment reach it (REWIND_DATABASE_URL, REWIND_WORKER_CHILDREN and the like); credentials and
addresses of another server do not.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import asyncpg

from tests.bench import meters

REPOSITORY = Path(__file__).resolve().parents[2]
BOOT_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
RESTART_TIMEOUT_S = 20.0
POLL_S = 0.02
NOT_INHERITED = ("REWIND_API_KEY", "REWIND_TOKEN", "REWIND_URL", "REWIND_PORT", "REWIND_DATA")


T = TypeVar("T")


async def until(
    look: Callable[[], Awaitable[T]], what: str, *, within_s: float, every_s: float = POLL_S
) -> T:
    """Look again and again until the answer is truthy."""
    give_up = time.monotonic() + within_s
    while True:
        answer = await look()
        if answer:
            return answer
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not within {within_s:.0f} s")
        await asyncio.sleep(every_s)


class RigError(Exception):
    """The system did not start or has ended; the message carries its logs."""


class Dev:
    """`rewind dev --port 0 --json` as a child process; usable without an event loop."""

    def __init__(self, folder: Path | None = None, *, environ: dict[str, str] | None = None) -> None:
        """Without `folder` the data goes to a temporary one, which `stop` removes."""
        self._temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="rewind-bench-"))
        self.folder.chmod(0o755)
        self._environ = {
            **{name: value for name, value in os.environ.items() if name not in NOT_INHERITED},
            **(environ or {}),
        }
        self.popen: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.api_key = ""
        self.boot_s = 0.0

    @property
    def pid(self) -> int:
        if self.popen is None:
            raise RigError("rewind dev was not started")
        return self.popen.pid

    def start(self) -> Self:
        """Return when the server says that it is ready."""
        began = time.monotonic()
        with (self.folder / "dev.log").open("ab") as log:
            self.popen = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "rewind",
                    "dev",
                    "--port",
                    "0",
                    "--data",
                    str(self.folder / "data"),
                    "--json",
                ],
                env=self._environ,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        ready = self.folder / "data" / "dev.json"
        while not (found := _read_json(ready)):
            if self.popen.poll() is not None or time.monotonic() - began > BOOT_TIMEOUT_S:
                logs = self.logs()
                self.stop()
                raise RigError(f"rewind dev is not ready after {time.monotonic() - began:.0f} s:\n{logs}")
            time.sleep(POLL_S)
        self.url, self.api_key = found["url"], found["api_key"]
        self.boot_s = time.monotonic() - began
        return self

    def stop(self) -> None:
        if self.popen is not None and self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def services(self) -> dict[str, Any]:
        """Addresses and processes, as the supervisor wrote them; empty while it writes."""
        return _read_json(self.folder / "data" / "services.json")

    def check(self) -> None:
        if self.popen is None or self.popen.poll() is not None:
            raise RigError(f"rewind dev has ended:\n{self.logs()}")

    def logs(self) -> str:
        """Return the ends of all logs."""
        parts = []
        for path in sorted([*self.folder.glob("*.log"), *(self.folder / "data").rglob("*.log")]):
            with contextlib.suppress(OSError):
                parts.append(f"--- {path.name}\n{path.read_text(errors='replace')[-2000:]}")
        return "\n".join(parts)


class Rig:
    """`async with Rig():` the server with a database session beside it, and the meters."""

    def __init__(self, *, environ: dict[str, str] | None = None) -> None:
        self.dev = Dev(environ=environ)
        self.database: asyncpg.Connection

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.dev.start)
        try:
            services = await self._services()
            self.database = await asyncpg.connect(services["database_url"])
        except BaseException:
            self.dev.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.database.close()
        await asyncio.to_thread(self.dev.stop)

    async def _services(self) -> dict[str, Any]:
        async def complete() -> dict[str, Any]:
            found = self.dev.services()
            return found if "worker" in found.get("pids", {}) else {}

        return await until(complete, "the worker's process", within_s=RESTART_TIMEOUT_S)

    async def sample(self) -> meters.Sample:
        self.dev.check()
        server = await meters.sample_server(self.database)
        processes = meters.read_processes()
        roles = meters.roles_of(self.dev.pid, (await self._services())["pids"], processes)
        return meters.Sample(meters.now(), meters.sample_cpu(roles, processes), server)

    async def pss_kib(self) -> dict[str, int]:
        processes = meters.read_processes()
        return meters.pss_kib(meters.roles_of(self.dev.pid, (await self._services())["pids"], processes))

    async def store_bytes(self) -> dict[str, int]:
        return await meters.table_bytes(self.database)

    async def restart_worker(self) -> None:
        """Ask the worker to leave (it releases its runs first) and wait for the next one."""
        pid = (await self._services())["pids"]["worker"]
        os.kill(pid, signal.SIGTERM)

        async def another() -> bool:
            return bool((await self._services())["pids"]["worker"] != pid)

        await until(another, "another worker", within_s=RESTART_TIMEOUT_S)

    async def kill_worker(self) -> float:
        """Kill the worker process (-9) and return when that was; the supervisor starts the next one."""
        pid = (await self._services())["pids"]["worker"]
        os.kill(pid, signal.SIGKILL)
        return meters.now()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
