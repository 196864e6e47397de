"""The egress guard against every spelling of an address that is not public."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from app.dispatcher.egress import Egress, EgressRefused, LimitedStream, ResponseTooLarge, is_public
from sandbox.config import SettingsError

HOSTILE = [
    "http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://LOCALHOST:{port}/",
    "http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0x7f.1:{port}/", "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/", "http://127.0.1:{port}/", "http://0:{port}/", "http://0.0.0.0:{port}/",
    "http://user:pass@127.0.0.1:{port}/", "http://[::1]:{port}/", "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/", "http://[::ffff:7f00:1]:{port}/", "http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/",
    "http://[::127.0.0.1]:{port}/", "http://[64:ff9b::127.0.0.1]:{port}/", "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b:1::7f00:1]/", "http://[2002:7f00:1::]/", "http://[2002:7f00:1::1]:{port}/",
    "http://[2001:0:53aa:64c:0:0:80ff:fffe]/", "http://[fd00::1]/", "http://[fc00::1]/", "http://[fe80::1]/",
    "http://[fec0::1]/", "http://[ff02::1]/", "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/", "http://[::ffff:169.254.169.254]/", "http://2852039166/",
    "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.1.1/", "http://100.64.0.1/", "http://100.100.100.200/",
    "http://192.0.0.192/", "http://198.18.0.1/", "http://224.0.0.1/", "http://255.255.255.255/",
    "http://240.0.0.1/", "http://192.0.2.1/", "https://127.0.0.1:{port}/", "http://１２７.0.0.1:{port}/",
    "http://127。0。0。1:{port}/", "http://ⓛocalhost:{port}/",
]  # fmt: skip


@pytest.fixture
def egress() -> Iterator[Egress]:
    made = Egress()
    yield made
    made.close()


@contextlib.asynccontextmanager
async def local_server(
    answer: bytes = b"ok", head: bytes = b"HTTP/1.1 200 OK"
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server on this machine, and what it was sent."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(head + b"\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(answer) + answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


async def get(egress: Egress, url: str) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=egress.transport(), trust_env=False, timeout=5) as client:
        return await client.get(url)


@pytest.mark.parametrize("url", HOSTILE)
async def test_what_is_not_public_is_not_reached(egress: Egress, url: str) -> None:
    async with local_server() as (port, seen):
        with pytest.raises((httpx2.ConnectError, httpx2.InvalidURL)) as caught:
            await get(egress, url.format(port=port))
        assert seen == []
    if isinstance(caught.value, httpx2.ConnectError):
        assert "not on the public internet" in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "1.1.1.1",
        "93.184.215.14",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "::ffff:8.8.8.8",
    ],
)
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


async def test_a_host_with_one_private_address_is_refused_as_a_whole(
    egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to a public address first and a private one second, or to another at each look-up."""
    asked = 0

    def resolve(host: str, port: int, **_: object) -> list[object]:
        nonlocal asked
        asked += 1
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in ("93.184.215.14", "127.0.0.1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(httpx2.ConnectError, match="not on the public internet"):
        await get(egress, "http://rebound.example/")
    assert asked == 1


async def test_the_checked_address_is_the_one_connected_to(
    egress: Egress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolved once: a name that changes after the check changes nothing."""
    connected: list[object] = []
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])

    def resolve(host: str, port: int, **_: object) -> list[object]:
        if host != "rebound.example":  # the address itself, on its way to the socket
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port)) for ip in next(answers)]

    async def connect(host: str, *_: object, **__: object) -> object:
        connected.append(host)
        raise OSError("no way out of the tests")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("anyio.connect_tcp", lambda remote_host, **_: connect(remote_host))
    with pytest.raises(httpx2.ConnectError):
        await get(egress, "http://rebound.example/")
    assert connected == ["93.184.215.14"]


@pytest.mark.parametrize("entry", ["127.0.0.0/8", "127.0.0.1", "localhost", "::ffff:127.0.0.1/104"])
async def test_what_the_deployment_lists_is_reached(entry: str) -> None:
    egress = Egress([entry, "::1"])
    host = "localhost" if entry == "localhost" else "127.0.0.1"
    async with local_server() as (port, seen):
        if entry.startswith("::ffff"):
            with pytest.raises(httpx2.ConnectError):
                await get(egress, f"http://{host}:{port}/")
        else:
            assert (await get(egress, f"http://{host}:{port}/")).text == "ok"
            assert len(seen) == 1
    egress.close()


async def test_a_listed_host_does_not_open_its_neighbours() -> None:
    egress = Egress(["*.internal", "tools.example"])
    async with local_server() as (port, seen):
        with pytest.raises(httpx2.ConnectError):
            await get(egress, f"http://localhost:{port}/")
        assert seen == []
    egress.close()


@pytest.mark.parametrize("entry", ["http://x", "10.0.0.0/33", "a b", "*", ""])
def test_a_mistyped_setting_is_refused(entry: str) -> None:
    with pytest.raises(SettingsError, match="REWIND_EGRESS_ALLOW"):
        Egress([entry])


async def test_redirects_are_not_followed_and_proxies_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    egress = Egress(["127.0.0.1"])
    async with (
        local_server() as (proxy, proxied),
        local_server(head=b"HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/") as (port, _),
    ):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy}")
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy}")
        answer = await get(egress, f"http://127.0.0.1:{port}/")
        assert answer.status_code == 302
        assert proxied == []
    egress.close()


async def test_sockets_of_the_machine_are_refused(egress: Egress) -> None:
    with pytest.raises(EgressRefused):
        await egress._backend.connect_unix_socket("/run/any.sock")


async def test_a_body_is_cut_at_its_limit() -> None:
    class Body(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"1234"

    assert b"".join([chunk async for chunk in LimitedStream(Body(), 12)]) == b"1234" * 3
    with pytest.raises(ResponseTooLarge):
        _ = [chunk async for chunk in LimitedStream(Body(), 11)]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1"])
def test_localhost_is_listed_where_loopback_is(host: str) -> None:
    with (
        contextlib.closing(Egress(["127.0.0.0/8", "::1"])) as development,
        contextlib.closing(Egress()) as production,
    ):
        assert development.lists(host)
        assert not production.lists(host)
        assert not production.may_be_public(host)
        assert not development.lists("localhost.example.com")
