"""What an answer may cost that is cut into very many parts: the bytes are few, and the work on each part is not.

A server can send a body as chunks of one byte, thousands of interim responses before the answer, or a stream of empty
lines. The parsers take some tens of µs for each and do not wait in between: other tenants' requests would. So what is
taken apart is counted, and after a few ms of it the event loop has its turn.
"""

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from typing import Any

import httpcore2
import httpx2

HEAD_BYTES_MAX = 256 * 1024
"""Read before an answer begins, interim responses included. The parser bounds one head, not how many there are."""
HEAD_READ_BYTES = 8 * 1024
PARTS_FREE = 20_000
PART_BYTES_LEAST = 64
"""Parts beyond the free ones have so many bytes on average, or the answer is refused."""
PARTS_AT_ONCE = 100
SLICE_BYTES = 16 * 1024
"""Of a stream of lines, what is looked at in one turn of the loop."""
LINE_BYTES_LEAST = 16


class AnswerInPieces(httpx2.ReadError):
    """The server cuts its answer into more parts than it may."""


class _Head:
    """What may still be read before an answer begins."""

    def __init__(self) -> None:
        self.left = HEAD_BYTES_MAX


_HEAD: ContextVar[_Head | None] = ContextVar("head", default=None)
"""Of the request whose answer is awaited in this context: its connection is read in the context of who asks."""


class CountedStream(httpcore2.AsyncNetworkStream):
    """A connection that reads little at a time, and not for ever, while the head of an answer is awaited."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        head = _HEAD.get()
        if head is None:
            return await self._inner.read(max_bytes, timeout)
        if head.left <= 0:
            raise httpcore2.ReadError(f"the server sends {HEAD_BYTES_MAX:,} bytes and no answer")
        data = await self._inner.read(min(max_bytes, HEAD_READ_BYTES), timeout)
        head.left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(self, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        return CountedStream(await self._inner.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class PacedTransport(httpx2.AsyncHTTPTransport):
    """Bounds heads and parts of every answer. Its connections are `CountedStream`s."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        token = _HEAD.set(_Head())
        try:
            response = await super().handle_async_request(request)
        finally:
            _HEAD.reset(token)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Parts(response.stream)
        return response


class _Parts(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, parts = PARTS_FREE * PART_BYTES_LEAST, 0
        async for part in self._stream:
            left += len(part) - PART_BYTES_LEAST
            if left < 0:
                raise AnswerInPieces("the server sends its answer in too many small parts")
            parts += 1
            if parts % PARTS_AT_ONCE == 0:
                await asyncio.sleep(0)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class PacedLines(httpx2.AsyncByteStream):
    """A stream that somebody takes apart line by line: in slices, and not of empty lines without end."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = PARTS_FREE * LINE_BYTES_LEAST
        async for part in self._stream:
            left += len(part) - LINE_BYTES_LEAST * max(part.count(b"\n"), part.count(b"\r"))
            if left < 0:
                raise AnswerInPieces("the server sends a stream of too many short lines")
            for start in range(0, len(part), SLICE_BYTES):
                if start:
                    await asyncio.sleep(0)
                yield part[start : start + SLICE_BYTES]

    async def aclose(self) -> None:
        await self._stream.aclose()
