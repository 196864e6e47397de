"""The HTTP transport against a real server that misbehaves in every way a server can."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from rewind._errors import ConfigurationError, ConnectionFailed, RequestTimeout
from rewind._transport import Address, Limits, Response, Transport, http_head

from tests.sdk_python.http_server import LocalServer, Reply, Request, refused_port

OK = b"HTTP/1.1 200 OK\r\n"


async def answered(raw: list[bytes], *, close: bool = False, limits: Limits | None = None) -> Response:
    async def handler(_: Request) -> Reply:
        return Reply(raw=raw, close=close)

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url), limits=limits)
        try:
            return await transport.request(http_head("GET", "/", [("Host", "x")]), b"", 5)
        finally:
            await transport.aclose()


async def test_an_answer_that_arrives_byte_by_byte() -> None:
    raw = OK + b"Content-Length: 5\r\nX-Request-Id: r1\r\n\r\nhello"
    response = await answered([bytes([byte]) for byte in raw])
    assert (response.status, response.body) == (200, b"hello")
    assert response.header(b"x-request-id") == "r1"


async def test_a_chunked_answer_with_trailers() -> None:
    raw = [
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n",
        b"a\r\n0123456789\r\n",
        b"0\r\nX-Sum: 1\r\n\r\n",
    ]
    assert (await answered(raw)).body == b"abc0123456789"


async def test_an_answer_that_ends_with_its_connection() -> None:
    assert (await answered([OK + b"\r\nall of ", b"it"], close=True)).body == b"all of it"


async def test_an_interim_answer_is_passed_over() -> None:
    raw = [b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", OK + b"Content-Length: 2\r\n\r\nok"]
    response = await answered(raw)
    assert (response.status, response.body) == (200, b"ok")


async def test_an_answer_without_a_body() -> None:
    assert (await answered([b"HTTP/1.1 204 No Content\r\n\r\n"])).status == 204


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([b"SSH-2.0-OpenSSH_9.2\r\n"], "not HTTP"),
        ([OK + b"Content-Length: 10\r\n\r\nhalf"], "in the middle"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"], "in the middle"),
        ([OK + b"Content-Le"], "in the middle"),
        ([], "before it answered"),
        ([b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"], "without being asked"),
    ],
)
async def test_answers_that_break_off_or_are_none(raw: list[bytes], message: str) -> None:
    with pytest.raises(ConnectionFailed, match=message) as caught:
        await answered(raw, close=True)
    assert caught.value.sent


async def test_a_head_larger_than_allowed() -> None:
    one = [OK + b"X: " + b"a" * 20_000 + b"\r\n\r\n"]
    many = [OK + b"".join(b"X-%d: %b\r\n" % (i, b"a" * 1000) for i in range(20)) + b"\r\n"]
    for raw in (one, many):
        with pytest.raises(ConnectionFailed, match="head of the server's answer"):
            await answered(raw, limits=Limits(head_bytes_max=16_384))


async def test_a_head_that_never_ends() -> None:
    raw = [OK, *(b"X-%d: y\r\n" % i for i in range(2_000))]
    with pytest.raises(ConnectionFailed, match="head of the server's answer"):
        await answered(raw, limits=Limits(head_bytes_max=4_096))


async def test_a_body_larger_than_allowed() -> None:
    with pytest.raises(ConnectionFailed, match="larger than 1000 bytes"):
        await answered(
            [OK + b"Content-Length: 2000\r\n\r\n" + b"a" * 2000], limits=Limits(body_bytes_max=1000)
        )


async def test_silence_times_out_and_closes_the_connection() -> None:
    seen = asyncio.Event()

    async def handler(_: Request) -> Reply:
        seen.set()
        await asyncio.Event().wait()
        return Reply()

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url))
        with pytest.raises(RequestTimeout, match=r"within 0.05 s"):
            await transport.request(http_head("GET", "/", []), b"", 0.05)
        assert seen.is_set()
        assert not transport._idle
        await transport.aclose()


async def test_nothing_listens() -> None:
    transport = Transport(Address.parse(f"http://127.0.0.1:{await refused_port()}"))
    with pytest.raises(ConnectionFailed, match="Connection refused") as caught:
        await transport.request(http_head("GET", "/", []), b"", 5)
    assert not caught.value.sent


async def echo(request: Request) -> Reply:
    return Reply(body={"path": request.target, "connection": request.connection, "bytes": len(request.body)})


async def test_connections_are_reused_and_a_closing_one_is_not() -> None:
    async def handler(request: Request) -> Reply:
        headers = {"Connection": "close"} if request.target == "/last" else {}
        return Reply(body=request.connection, headers=headers, close=bool(headers))

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url))
        bodies = [
            (await transport.request(http_head("GET", target, []), b"", 5)).body
            for target in ("/a", "/b", "/last", "/c")
        ]
        assert bodies == [b"1", b"1", b"1", b"2"]
        await transport.aclose()


async def test_an_idle_connection_grows_too_old() -> None:
    async with LocalServer(echo) as server:
        transport = Transport(Address.parse(server.url), limits=Limits(idle_s_max=0))
        for _ in range(3):
            await transport.request(http_head("GET", "/", []), b"", 5)
        assert server.connections == 3
        await transport.aclose()


async def test_concurrent_requests_are_bounded_and_all_answered() -> None:
    async with LocalServer(echo) as server:
        transport = Transport(Address.parse(server.url), limits=Limits(connections_max=3))
        answers = await asyncio.gather(
            *(transport.request(http_head("GET", f"/{n}", []), b"", 5) for n in range(50))
        )
        assert all(f'"/{n}"'.encode() in answer.body for n, answer in enumerate(answers))
        assert server.connections <= 3
        await transport.aclose()


async def test_no_free_connection_in_time() -> None:
    async def handler(_: Request) -> Reply:
        await asyncio.Event().wait()
        return Reply()

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url), limits=Limits(connections_max=1))
        first = asyncio.create_task(transport.request(http_head("GET", "/", []), b"", 30))
        await asyncio.sleep(0)
        with pytest.raises(RequestTimeout, match="no connection was free") as caught:
            await transport.request(http_head("GET", "/", []), b"", 0.02)
        assert not caught.value.sent
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await transport.aclose()


async def test_a_cancelled_request_closes_its_connection() -> None:
    arrived = asyncio.Event()

    async def handler(request: Request) -> Reply:
        if request.target == "/slow":
            arrived.set()
            await asyncio.Event().wait()
        return Reply(body=request.connection)

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url))
        slow = asyncio.create_task(transport.request(http_head("GET", "/slow", []), b"", 30))
        await arrived.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await transport.request(http_head("GET", "/", []), b"", 5)).body == b"2"
        await transport.aclose()


async def test_a_second_answer_to_one_request_closes_the_connection() -> None:
    twice = OK + b"Content-Length: 2\r\n\r\nok"

    async def handler(_: Request) -> Reply:
        return Reply(raw=[twice + twice])

    async with LocalServer(handler) as server:
        transport = Transport(Address.parse(server.url))
        assert (await transport.request(http_head("GET", "/", []), b"", 5)).body == b"ok"
        assert not transport._idle
        await transport.aclose()


async def test_a_large_request_body() -> None:
    async with LocalServer(echo) as server:
        transport = Transport(Address.parse(server.url))
        response = await transport.request(http_head("POST", "/", []), b"x" * 9_000_000, 30)
        assert b'"bytes":9000000' in response.body
        await transport.aclose()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_outlives_its_event_loop(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def first(transport: Transport) -> None:
        async with LocalServer(echo) as server:
            transport.address = Address.parse(server.url)
            await transport.request(http_head("GET", "/", []), b"", 5)

    transport = Transport(Address.parse("http://127.0.0.1:1"))
    run(first(transport))
    run(first(transport))


@pytest.mark.parametrize(
    ("url", "authority", "prefix"),
    [
        ("https://api.example.com/", "api.example.com", ""),
        ("https://api.example.com:8443/rewind/", "api.example.com:8443", "/rewind"),
        ("http://[::1]:8484", "[::1]:8484", ""),
        ("http://host", "host", ""),
    ],
)
def test_addresses(url: str, authority: str, prefix: str) -> None:
    address = Address.parse(url)
    assert (address.authority, address.prefix, address.tls) == (authority, prefix, url.startswith("https"))


@pytest.mark.parametrize(
    "url", ["", "localhost:8484", "ftp://x", "http://", "http://x:99999", "http://u:p@x", "http://x/?q=1"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Address.parse(url)


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "\0", "snowman ☃"])
def test_headers_cannot_break_out(value: str) -> None:
    with pytest.raises(ConfigurationError):
        http_head("GET", "/", [("X", value)])
