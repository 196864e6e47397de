"""A relay in front of Postgres's socket whose connections can be cut, stopped and refused.

It has a thread and an event loop of its own: what a test waits for must not hold up the database.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Self, TypeVar

Answer = TypeVar("Answer")

SOCKET = ".s.PGSQL.5432"
CHUNK_BYTES = 256 * 1024


class _Relay:
    """One client's connection, passed on in both directions until either side ends or it is cut."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._writers = (client, server)

    def cut(self) -> None:
        """End it at once, in the middle of whatever is being said."""
        for writer in self._writers:
            writer.transport.abort()


class Proxy:
    """`with Proxy(folder, upstream)`: Postgres is reached at `folder` as well as at its own folder."""

    def __init__(self, folder: Path, upstream: Path) -> None:
        self.folder = folder
        self._upstream = upstream / SOCKET
        self._relays: set[_Relay] = set()
        self._open = asyncio.Event()
        self._refusing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        self._open.set()
        self._thread.start()
        self._server = self._call(
            lambda: asyncio.start_unix_server(self._serve, str(self.folder / SOCKET), limit=CHUNK_BYTES)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, rng: Random, share: float = 1.0) -> int:
        """Cut this share of the connections; how many these were."""

        async def chosen() -> int:
            relays = [relay for relay in self._relays if rng.random() < share]
            for relay in relays:
                relay.cut()
            return len(relays)

        return self._call(chosen)

    def hold(self) -> None:
        """Nothing passes any more: to its clients the database hangs. `let_go` ends it."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def refuse(self) -> None:
        """New connections are closed at once, until `let_go`."""
        self._refusing = True

    def let_go(self) -> None:
        self._refusing = False
        self._loop.call_soon_threadsafe(self._open.set)

    def _call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        async def run() -> Answer:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _close(self) -> None:
        self._server.close()
        for relay in list(self._relays):
            relay.cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        if self._refusing:
            client_out.transport.abort()
            return
        try:
            server_in, server_out = await asyncio.open_unix_connection(str(self._upstream), limit=CHUNK_BYTES)
        except OSError:
            client_out.transport.abort()
            return
        relay = _Relay(client_out, server_out)
        self._relays.add(relay)
        try:
            directions = [
                asyncio.create_task(self._pass_on(client_in, server_out)),
                asyncio.create_task(self._pass_on(server_in, client_out)),
            ]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            relay.cut()
            for task in directions:
                task.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self._relays.discard(relay)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(CHUNK_BYTES):
                await self._open.wait()
                sink.write(piece)
                await sink.drain()
