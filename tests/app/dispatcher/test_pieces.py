"""Answers that never end, or are cut into very many pieces: each is given up soon, and the event loop is never held.

The servers here speak raw bytes, as fast as they are read. Whatever goes out to an address that a tenant chose uses
the transport that is tested: the `http` tool, MCP, webhooks, tokens, providers of sign-ins.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest

from app.dispatcher import oauth, pacing
from app.dispatcher.egress import Egress, LimitedTransport
from app.dispatcher.endpoints import Grant
from app.dispatcher.mcp_http import McpTransport
from app.dispatcher.oauth import Tokens, TokenUnreachable
from app.dispatcher.pacing import PacedLines
from app.pages import PROVIDER_ANSWER_BYTES_MAX
from sandbox.journal.errors import Unavailable
from tenancy.people import oidc
from tenancy.people.oidc import OidcClient

TURNS_LEAST = 20
"""Turns of the loop that others have had while 1 MB of pieces was taken apart."""
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
EVENTS = OK + b"content-type: text/event-stream\r\n\r\n"


@asynccontextmanager
async def blasting(head: bytes, again: bytes) -> AsyncIterator[str]:
    """A server that sends `head`, then `again` without end."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while again:
                writer.write(again)
                await writer.drain()
            await over.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        over.set()
        server.close()
        await server.wait_closed()


@pytest.fixture
async def egress() -> AsyncIterator[Egress]:
    made = Egress(["127.0.0.0/8"])
    yield made
    made.close()


async def others() -> int:
    """Turns of the event loop that somebody else has had, until cancelled."""
    turns = 0
    try:
        while True:
            await asyncio.sleep(0)
            turns += 1
    except asyncio.CancelledError:
        return turns


@pytest.mark.parametrize(
    ("head", "again", "said"),
    [
        (CHUNKED, b"1\r\nx\r\n" * 10_000, "too many small parts"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 2_000, "bytes and no answer"),
        (OK, b"a: b\r\n" * 2_000, "too long|no answer|too many"),
        (OK, b"a: " + b"x" * 100_000, "too long|no answer"),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * 2_000, "too long|no answer"),
    ],
    ids=["chunks of one byte", "interim answers", "headers", "one header", "trailers"],
)
async def test_an_answer_in_pieces_is_given_up(egress: Egress, head: bytes, again: bytes, said: str) -> None:
    async with blasting(head, again) as url, httpx2.AsyncClient(transport=egress.transport()) as client:
        neighbour = asyncio.create_task(others())
        with pytest.raises(httpx2.TransportError, match=said):
            await client.get(url)
        neighbour.cancel()
        assert await neighbour >= TURNS_LEAST or "too long" in said


async def test_small_parts_of_an_honest_server_arrive(egress: Egress) -> None:
    """What a model says word by word, and 1 MB of it."""
    words, body = 15_000, b"5\r\nword \r\n"
    many = b"".join(b"%x\r\n%b\r\n" % (200, b"x" * 200) for _ in range(5_000))
    async with (
        blasting(CHUNKED + body * words + many + b"0\r\n\r\n", b"") as url,
        httpx2.AsyncClient(transport=egress.transport()) as client,
    ):
        assert len((await client.get(url)).content) == words * 5 + 5_000 * 200


async def test_a_stream_of_empty_lines_is_given_up(egress: Egress) -> None:
    """Each is next to nothing, and something to look at."""
    transport = McpTransport(egress.transport())
    async with blasting(EVENTS, b":\n" * 30_000) as url, httpx2.AsyncClient(transport=transport) as client:
        with pytest.raises(httpx2.TransportError, match="too many short lines"):
            await client.post(url, json={})


async def test_a_long_event_comes_in_slices() -> None:
    class Once(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"data: " + b"x" * (5 * pacing.SLICE_BYTES) + b"\n\n"

    parts = [part async for part in PacedLines(Once())]
    assert max(map(len, parts)) == pacing.SLICE_BYTES
    assert b"".join(parts) == b"data: " + b"x" * (5 * pacing.SLICE_BYTES) + b"\n\n"


BOMB = gzip.compress(b"\0" * (64 << 20), 9)


def compressed(kind: bytes) -> bytes:
    return (
        OK
        + b"content-type: %b\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % (kind, len(BOMB))
        + BOMB
    )


async def test_a_provider_sends_nothing_that_grows(egress: Egress) -> None:
    """Anybody may name a provider of their organization: 64 kB of its answer must not become 64 MB here."""
    made: list[httpx2.AsyncBaseTransport] = []

    def transport() -> httpx2.AsyncBaseTransport:
        made.append(LimitedTransport(egress.transport(), PROVIDER_ANSWER_BYTES_MAX))
        return made[-1]

    assert len(BOMB) < PROVIDER_ANSWER_BYTES_MAX
    async with blasting(compressed(b"application/json"), b"") as url:
        with pytest.raises(Unavailable) as refused:
            await OidcClient(transport).check(url)
        assert "compressed" in str(refused.value.__cause__)


async def test_a_resumed_stream_is_not_compressed(egress: Egress) -> None:
    transport = McpTransport(egress.transport())
    async with (
        blasting(compressed(b"text/event-stream"), b"") as url,
        httpx2.AsyncClient(transport=transport) as client,
    ):
        assert (await client.get(url, headers={"last-event-id": "1"})).status_code == 502


async def slowly(egress: Egress, url: str) -> None:
    tokens = Tokens(egress)
    try:
        await tokens.token(Grant(url, "me", "secret", None))
    finally:
        await tokens.close()


async def discovered(egress: Egress, url: str) -> None:
    await OidcClient(lambda: LimitedTransport(egress.transport(), PROVIDER_ANSWER_BYTES_MAX)).check(url)


@pytest.mark.parametrize(
    ("ask", "error"), [(slowly, TokenUnreachable), (discovered, Unavailable)], ids=["token", "provider"]
)
async def test_who_answers_byte_by_byte_is_not_waited_for(
    egress: Egress,
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[Egress, str], "asyncio.Future[None]"],
    error: type[Exception],
) -> None:
    """Each byte is in time, and all of them never are."""
    monkeypatch.setattr(oauth, "TOKEN_TIMEOUT_S", 0.3)
    monkeypatch.setattr(oidc, "ALL_S", 0.3)
    async with blasting(OK + b"content-length: 60000\r\n\r\n{", b"") as url:
        with pytest.raises(error, match="within"):
            await ask(egress, url)
