"""Server-sent events: their lines, and a connection whose body is read while it arrives."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from rewind._errors import ConnectionFailed, RequestTimeout
from rewind._transport import Connection, Limits, Response, Transport

CHUNKS_MAX = 64
"""Pieces of a body that wait to be read before the server is slowed down."""
EVENT_BYTES_MAX = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerEvent:
    event: str
    data: bytes
    id: str | None
    """The last id that the stream has given: where to resume."""


class EventParser:
    """Bytes in, whole events out; comments and fields that nobody asked for are dropped."""

    def __init__(self) -> None:
        self._rest = b""
        self._event = ""
        self._data: list[bytes] = []
        self._id: str | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        lines = (self._rest + chunk).split(b"\n") if b"\n" in chunk else [self._rest + chunk]
        self._rest = lines.pop()
        self._size += len(chunk)
        if self._size > EVENT_BYTES_MAX:
            raise ConnectionFailed(f"an event of the server is larger than {EVENT_BYTES_MAX} bytes")
        for line in lines:
            if (event := self._line(line.removesuffix(b"\r"))) is not None:
                yield event

    def _line(self, line: bytes) -> ServerEvent | None:
        if not line:
            data, self._data = self._data, []
            event, self._event = self._event or "message", ""
            self._size = len(self._rest)
            return ServerEvent(event, b"\n".join(data), self._id) if data else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            self._id = value.decode("utf-8", "replace")
        return None


class _StreamConnection(Connection):
    """Answers the request with the head alone; the body is in `chunks`, then None or why there is no more."""

    def __init__(self, limits: Limits, on_lost: Callable[[Connection], None]) -> None:
        super().__init__(limits, on_lost)
        self._streaming = False
        self.chunks: asyncio.Queue[bytes | ConnectionFailed | None] = asyncio.Queue()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        status = self._parser.get_status_code()
        if 200 <= status < 300 and self._waiter is not None and not self._waiter.done():
            self._streaming = True
            self._waiter.set_result(Response(status, self._headers, b""))

    def on_body(self, data: bytes) -> None:
        if not self._streaming:
            super().on_body(data)
            return
        self.chunks.put_nowait(data)
        if self.chunks.qsize() >= CHUNKS_MAX and self._transport is not None:
            self._transport.pause_reading()

    async def next_chunk(self, timeout_s: float) -> bytes | None:
        """Errors: ConnectionFailed; RequestTimeout when nothing came for so long."""
        try:
            async with asyncio.timeout(timeout_s):
                chunk = await self.chunks.get()
        except TimeoutError:
            raise RequestTimeout(f"the server said nothing for {timeout_s:g} s") from None
        if self.chunks.qsize() < CHUNKS_MAX // 2 and self._transport is not None and not self.closed:
            self._transport.resume_reading()
        if isinstance(chunk, ConnectionFailed):
            raise chunk
        return chunk

    def on_message_complete(self) -> None:
        if self._streaming:
            self.chunks.put_nowait(None)
        else:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._streaming:
            self.chunks.put_nowait(ConnectionFailed("the server closed the connection"))
        super().connection_lost(exc)


@contextlib.asynccontextmanager
async def open_stream(
    transport: Transport, head: bytes, *, timeout_s: float, silence_s: float
) -> AsyncIterator[tuple[Response, AsyncGenerator[bytes, None]]]:
    """Send a request on a connection of its own: the head of the answer, and its body as it arrives.

    An answer that is no success is given whole, and has no body to read.
    Errors: ConnectionFailed, RequestTimeout; `timeout_s` is for the head, `silence_s` between two pieces.
    """
    loop = asyncio.get_running_loop()
    connection = await transport.connect_alone(loop.time() + timeout_s, _StreamConnection)
    try:
        data = b"%bContent-Length: 0\r\n\r\n" % head
        response = await connection.exchange(data, loop.time() + timeout_s, timeout_s)
        yield response, _chunks(connection, silence_s)
    finally:
        connection.abort()


async def _chunks(connection: _StreamConnection, silence_s: float) -> AsyncGenerator[bytes, None]:
    while (chunk := await connection.next_chunk(silence_s)) is not None:
        yield chunk


async def parsed(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[ServerEvent, None]:
    parser = EventParser()
    async with contextlib.aclosing(chunks):
        async for chunk in chunks:
            for event in parser.feed(chunk):
                yield event
