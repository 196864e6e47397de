"""A real HTTP server on a local port whose answers a test writes byte by byte."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import orjson


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    gone: Callable[[], bool] = lambda: False
    """Whether the client has closed the connection meanwhile."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Reply:
    """`drop`: close the connection instead; `raw`: these bytes instead; `close`: close after the answer."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    raw: list[bytes] | None = None
    close: bool = False


Handler = Callable[[Request], Awaitable[Reply]]


class LocalServer:
    """`async with LocalServer(handler) as server:`; `crash()` breaks all connections, also new ones, until `restart()`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._up = False
        self.port = 0
        self.connections = 0
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.restart()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.crash()
        for _ in range(5):  # connections that were being accepted meanwhile are made, and refused
            await asyncio.sleep(0)
        assert self._server is not None
        self._server.close()

    def restart(self) -> None:
        self._up = True

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._up:
            writer.transport.abort()
            return
        self._writers.add(writer)
        self._serving.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def crash(self) -> None:
        self._up = False
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.connections += 1
        number = self.connections
        try:
            while request := await _read(reader, number):
                self.requests.append(request)
                reply = await self._handler(request)
                if reply.drop:
                    return
                await _write(writer, reply)
                if reply.close:
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return
        finally:
            self._writers.discard(writer)
            self._serving.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()


async def _read(reader: asyncio.StreamReader, connection: int) -> Request | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(
        method, target, headers, body, connection, lambda: reader.at_eof() or reader.exception() is not None
    )


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    if reply.raw is not None:
        for piece in reply.raw:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return
    body = (
        b""
        if reply.body is None
        else reply.body
        if isinstance(reply.body, bytes)
        else orjson.dumps(reply.body)
    )
    kind = "application/problem+json" if reply.status >= 400 else "application/json"
    headers = {"Content-Type": kind, "Content-Length": str(len(body)), **reply.headers}
    head = f"HTTP/1.1 {reply.status} X\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def refused_port() -> int:
    """A local port on which nothing listens."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = int(server.sockets[0].getsockname()[1])
    server.close()
    await server.wait_closed()
    return port
