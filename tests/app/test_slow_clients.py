"""Clients that drip, stall, never begin or never end: each is hung up on; and requests that two readers would read twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from app import protocol
from app.protocol import ProblemProtocol
from tests.e2e.stack import pause

SOON_S = 20.0
PACE_S = 0.4
STEADY_S = 2.0
POST = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n"


async def endless() -> AsyncIterator[bytes]:
    while True:
        await asyncio.sleep(0)
        yield b"x" * 65_536


async def application(scope: Any, receive: Any, send: Any) -> None:
    request = Request(scope, receive)
    answer: Response = PlainTextResponse(request.url.path)
    if scope["path"] == "/read":
        answer = PlainTextResponse(f"{len(await request.body())}")
    elif scope["path"] == "/endless":
        answer = StreamingResponse(endless())
    await answer(scope, receive, send)


class Server(uvicorn.Server):
    """Says when it listens, and leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@pytest.fixture
async def port(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    """A server with our protocol, whose patience is short."""
    for name in ("HEAD_S", "PACE_S", "READING_S"):
        monkeypatch.setattr(protocol, name, PACE_S)
    monkeypatch.setattr(protocol, "LOOK_EVERY_S", PACE_S / 4)
    config = uvicorn.Config(
        application, port=0, http=ProblemProtocol, ws="none", lifespan="off", log_config=None
    )
    server = Server(config)
    task = asyncio.create_task(server.serve())
    await server.ready.wait()
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = server.force_exit = True
    await task


def bytewise(data: bytes) -> Iterator[bytes]:
    for number in range(len(data)):
        yield data[number : number + 1]


def for_ever(data: bytes) -> Iterator[bytes]:
    while True:
        yield data


CLIENTS: dict[str, tuple[bytes, Callable[[], Iterator[bytes]]]] = {
    "says nothing": (b"", lambda: iter(())),
    "says its head byte by byte": (b"", lambda: bytewise(b"GET / HTTP/1.1\r\nx: " + b"y" * 10_000)),
    "sends empty lines": (b"", lambda: for_ever(b"\r\n")),
    "goes on with empty lines": (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", lambda: for_ever(b"\r\n")),
    "stops within its body": (POST + b"half", lambda: iter(())),
    "says its body byte by byte": (POST, lambda: for_ever(b"x")),
    "never ends its chunk": (
        b"POST /read HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", lambda: for_ever(b"1\r\nx\r\n"),
    ),
    "sends a body that nobody reads byte by byte": (POST.replace(b"/read", b"/"), lambda: for_ever(b"x")),
}  # fmt: skip


@pytest.mark.parametrize("name", CLIENTS)
async def test_who_is_slow_is_hung_up_on(port: int, name: str) -> None:
    first, more = CLIENTS[name]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def drip() -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(first)
            for part in more():
                writer.write(part)
                await pause(PACE_S / 20)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(SOON_S):
        with contextlib.suppress(ConnectionError):
            await reader.read(-1)
    dripping.cancel()
    writer.transport.abort()


async def test_an_endless_body_that_nobody_reads_is_cut(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    sent = 0
    async with asyncio.timeout(SOON_S):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                await writer.drain()
                sent += 65_536
    assert sent < 64 * protocol.UNREAD_BYTES_MAX
    writer.transport.abort()


async def test_who_does_not_read_is_hung_up_on(port: int) -> None:
    """Its connection is reset: what the kernels have taken of the answer by then may still be read."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
    writer.write(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
    async with asyncio.timeout(SOON_S):
        closed = asyncio.get_running_loop().create_task(writer.wait_closed())
        while not closed.done():
            writer.write(b"\r\n")  # whoever is gone does not take this
            await pause(PACE_S / 4)
    with contextlib.suppress(ConnectionError):
        await closed


async def test_who_keeps_pace_is_served(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that takes longer than its pace and comes steadily, and a connection that is used again after a pause."""
    monkeypatch.setattr(protocol, "PACE_S", STEADY_S)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(POST)
    for _ in range(50):
        writer.write(b"x" * 20_000)
        await pause(STEADY_S / 30)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert await reader.readexactly(7) == b"1000000"
    await pause(PACE_S * 2)
    writer.write(b"GET /again HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    writer.close()
    await writer.wait_closed()


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 0\r\ntransfer-encoding: chunked",
        b"transfer-encoding: chunked\r\ncontent-length: 4",
        b"content-length: 0\r\ncontent-length: 35",
        b"content-length: 0, 35",
        b"content-length: +0",
        b"content-length: 0x0",
        b"content-length : 0",
        b"content-length: 0\r\n x: y",
        b"transfer-encoding: xchunked",
        b"transfer-encoding: chunked, identity",
        b"transfer-encoding: identity, chunked\r\ntransfer-encoding: x",
        b"transfer-encoding : chunked",
        b"transfer-encoding:\x0bchunked",
        b"x: y\ntransfer-encoding: chunked",
        b"x: y\rtransfer-encoding: chunked",
        b"x: a\0b",
    ],
)
async def test_a_request_whose_end_is_ambiguous_is_none(port: int, head: bytes) -> None:
    """A proxy may read another end than we do: nothing after it is taken for a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n" + b"0\r\n\r\n" + SMUGGLED)
    async with asyncio.timeout(SOON_S):
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await reader.read(-1)
    writer.transport.abort()
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert b"/smuggled" not in answer
    assert answer.count(b"\r\n\r\n") == 1


async def test_pipelined_requests_are_answered_in_their_order(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(200)))
    for number in range(200):
        await reader.readuntil(b"\r\n\r\n")
        expected = b"/%d" % number
        assert await reader.readexactly(len(expected)) == expected
    writer.close()
    await writer.wait_closed()
