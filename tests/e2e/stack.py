"""The real processes for one test: serve and workers on a database of its own, with time that can be advanced.

Nothing is replaced: the processes are those of the product, killed and restarted from outside.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import asyncpg
import httpx2

from sandbox.config import DATA_KEY_FILE
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.interface import StoredEntry
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import DataKey
from tests.fixtures.database import REPOSITORY, connect
from tests.fixtures.keys import data_key_file

START_TIMEOUT_S = 60
POLL_S = 0.01


async def pause(seconds: float) -> None:
    """One step of a bounded poll; never a way to hope that something has happened."""
    try:
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    except TimeoutError:
        return


async def eventually(
    look: Callable[[], Awaitable[Any]], *, within_s: float = 60, what: str = "it", every_s: float = POLL_S
) -> Any:
    """Look again and again until the answer is truthy; fail with what was waited for."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + within_s
    while not (answer := await look()):
        if loop.time() > give_up:
            raise AssertionError(f"{what} did not happen within {within_s} s")
        await pause(every_s)
    return answer


class Database:
    """The run's rows as a test looks at them, past a restart of Postgres; and the product's time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    async def row(self, sql: str, *values: object) -> Any:
        return (await self.rows(sql, *values) or [None])[0]

    async def rows(self, sql: str, *values: object) -> list[Any]:
        while True:
            async with self._turn:
                if self._connection is None:
                    self._connection = await eventually(self._connect, what="a connection to Postgres")
                try:
                    return list(await self._connection.fetch(sql, *values))
                except (
                    asyncpg.PostgresConnectionError,
                    asyncpg.InterfaceError,
                    asyncpg.InternalClientError,
                    OSError,
                ):
                    self._connection.terminate()
                    self._connection = None

    async def _connect(self) -> asyncpg.Connection | None:
        try:
            return await connect(self.url)
        except (asyncpg.PostgresError, OSError):
            return None

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def advance(self, ms: int) -> None:
        """Move time forward; the workers' heartbeats move along, or a long step would make all of them look dead."""
        await self.row(
            "with alive as (update workers set heartbeat_at = heartbeat_at + $1)"
            " update clock set offset_ms = offset_ms + $1 returning offset_ms",
            ms,
        )

    async def now(self) -> int:
        return int((await self.row("select now_ms() as now"))["now"])

    async def entries(self, run: str) -> list[tuple[int, int, int, bytes]]:
        """(seq, type, time, body) as they are stored: sealed."""
        rows = await self.rows(
            "select seq, type, time, body from entries where run_id = $1 order by seq", run
        )
        return [tuple(row) for row in rows]


class Process:
    """One process of the product, in its own session, with its log in a file."""

    def __init__(self, verb: str, environ: dict[str, str], log: Path, fds: tuple[int, ...] = ()) -> None:
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "rewind.cli", verb],
                env=environ,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=fds,
            )

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def kill(self) -> None:
        if self.alive:
            self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self, timeout_s: float = 15) -> int:
        """SIGTERM, and how it ended; a process that does not leave in time fails the test."""
        if self.alive:
            self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise


class Stack:
    """`async with Stack(...)`: serve and `workers` workers; `environ` adds settings to all of them."""

    def __init__(
        self,
        database_url: str,
        s3_url: str,
        folder: Path,
        *,
        workers: int = 1,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._count = workers
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(1024)
        os.set_inheritable(self._listener.fileno(), True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("REWIND_")},
            "REWIND_DATABASE_URL": database_url,
            "REWIND_S3_URL": s3_url,
            "REWIND_DATA": str(folder),
            "REWIND_WORKER_CHILDREN": "1",
            "REWIND_LISTEN_FD": str(self._listener.fileno()),
            **(environ or {}),
        }
        self.serve: Process
        self.workers: list[Process] = []
        self.database = Database(database_url)
        self.api_key = ""
        self.organization = ""

    async def __aenter__(self) -> Self:
        if not (self.folder / DATA_KEY_FILE).exists():
            data_key_file(self.folder).rename(self.folder / DATA_KEY_FILE)  # stacks may share a database
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in [*self.workers, *([self.serve] if hasattr(self, "serve") else [])]:
            process.kill()
        await self.database.close()
        self._listener.close()

    async def _start(self) -> None:
        created = subprocess.run(
            [sys.executable, "-m", "rewind.cli", "admin", "organizations", "create", "tests", "--json"],
            env=self._environ,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        answer = json.loads(created.stdout)
        self.api_key = answer["api_key"]
        self.organization = answer["organization"]
        self.start_serve()
        for _ in range(self._count):
            self.start_worker()
        await self.ready()

    def start_serve(self) -> None:
        self.serve = Process(
            "serve", self._environ, self.folder / "serve.log", fds=(self._listener.fileno(),)
        )

    def start_worker(self) -> Process:
        worker = Process("worker", self._environ, self.folder / f"worker-{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    def process(self, verb: str) -> Process:
        """One more process of the same settings, which is expected to refuse them."""
        environ = {name: value for name, value in self._environ.items() if name != "REWIND_LISTEN_FD"}
        return Process(verb, {**environ, "REWIND_PORT": "0"}, self.folder / f"refused-{verb}.log")

    async def ready(self) -> None:
        async with httpx2.AsyncClient(base_url=self.url, trust_env=False) as client:

            async def is_ready() -> bool:
                self.check_alive()
                try:
                    return (await client.get("/readyz", timeout=5)).status_code == 200
                except httpx2.HTTPError:
                    return False

            await eventually(is_ready, within_s=START_TIMEOUT_S, what=f"readiness ({self.logs()})")

    def check_alive(self) -> None:
        for process in (self.serve, *self.workers):
            assert process.alive, f"a process ended by itself with {process.popen.returncode}:\n{self.logs()}"

    async def entries(self, run: str) -> list[StoredEntry]:
        """The journal as the store gives it, opened with the key of this stack."""
        key = DataKey.from_file(self.folder / DATA_KEY_FILE)
        store = await PostgresEdge.open(self.database.url, data_key=key, size=1)
        try:
            row = await self.database.row("select namespace_id from runs where run_id = $1", run)
            return await store.read_entries(NamespaceId(str(row["namespace_id"])), RunId(run), limit=100_000)
        finally:
            await store.close()

    async def owner_of(self, run: str) -> Process | None:
        """The worker process that owns the run now."""
        row = await self.database.row(
            "select w.pid from runs r join workers w on w.worker_id = r.owner where r.run_id = $1", run
        )
        return next((worker for worker in self.workers if row is not None and worker.pid == row["pid"]), None)

    async def kill_worker(self, worker: Process) -> None:
        """kill -9, and another one starts in its place."""
        self.workers.remove(worker)
        worker.kill()
        self.start_worker()

    def logs(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {log.name}\n{log.read_text()[-4000:]}" for log in logs)
