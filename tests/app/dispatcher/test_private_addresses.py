"""No MCP server and no `http` request reaches what is not public: every spelling, by name, by rebinding, by redirect.

Nothing is listed in REWIND_EGRESS_ALLOW here but one name, for the server that redirects.
"""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.dispatcher.egress import Egress
from app.dispatcher.endpoints import Endpoint
from app.dispatcher.http_request import HttpSpec
from app.dispatcher.http_tool import HttpTool
from app.dispatcher.mcp import ServerFailed, Servers
from app.dispatcher.mcp_http import Trouble
from app.dispatcher.redaction import Redactor
from app.dispatcher.results import ToolFailed
from app.toolsets.mcp_tools import check_server
from app.toolsets.schemas import McpBody
from sandbox.journal.errors import FieldError
from tests.fixtures.web_server import Asked, Reply, WebServer

SPELLINGS = {
    "loopback": ["127.0.0.1", "127.8.9.1", "localhost", "[::1]", "0.0.0.0", "[::]"],
    "decimal": ["2130706433", "2852039166"],
    "hex": ["0x7f000001", "0x7f.0.0.1", "0xa9fea9fe"],
    "octal": ["0177.0.0.1", "017700000001", "0251.0376.0251.0376"],
    "short": ["127.1", "127.0.1", "0", "10.1"],
    "v4-mapped": ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]"],
    "NAT64": ["[64:ff9b::7f00:1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::7f00:1]"],
    "6to4": ["[2002:7f00:1::1]", "[2002:a00:1::]"],
    "Teredo": ["[2001:0:53aa:64c:0:0:80ff:fffe]"],
    "CGNAT": ["100.64.0.1", "100.127.255.254"],
    "ULA": ["[fd00::1]", "[fc00::1]"],
    "link-local": ["169.254.0.1", "[fe80::1]"],
    "metadata": ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "192.0.0.192"],
    "private": ["10.0.0.1", "172.16.0.1", "192.168.1.1"],
    "neither": ["224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "[fec0::1]", "[ff02::1]"],
}  # fmt: skip
ALL = [host for hosts in SPELLINGS.values() for host in hosts]
FRONT = "front.example"
REFUSAL = "not on the public internet"


@asynccontextmanager
async def both(*allow: str) -> AsyncIterator[tuple[Servers, HttpTool]]:
    egress = Egress(allow)
    servers, http = Servers(egress), HttpTool(egress)
    try:
        yield servers, http
    finally:
        await servers.close()
        await http.close()
        egress.close()


async def by_http(http: HttpTool, url: str) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        await http.request(
            HttpSpec(("*",), {}),
            {},
            {"method": "GET", "url": url},
            key="k",
            timeout_s=10,
            redactor=Redactor(),
        )
    return caught.value


def url_is_refused(url: str) -> bool:
    """By the registration, before anything is asked: what no client takes for a URL."""
    errors: list[FieldError] = []
    check_server(McpBody.model_validate({"name": "m", "url": url}), "mcp[0]", errors)
    return bool(errors)


@pytest.mark.parametrize("host", ALL)
async def test_no_spelling_reaches_what_is_not_public(host: str) -> None:
    async with WebServer(lambda _: Reply(200)) as inside, both() as (servers, http):
        url = f"http://{host}:{inside.host.partition(':')[2]}/mcp"
        failed = (await by_http(http, url)).failure
        assert failed.code in {"unreachable", "invalid_arguments"}
        assert REFUSAL in failed.message or "is no URL" in failed.message
        if not url_is_refused(url):
            for ask in (
                servers.list_tools(Endpoint(url)),
                servers.call_tool(Endpoint(url), "t", {}, key="k", timeout_s=10),
            ):
                with pytest.raises(ServerFailed, match=REFUSAL) as caught:
                    await ask
                assert caught.value.failure.trouble is Trouble.REFUSED
        assert inside.connections == 0


def resolving(monkeypatch: pytest.MonkeyPatch, answers: Callable[[str], list[str]]) -> None:
    """Names under `.example` have these addresses; the rest is as ever."""
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *args: Any, **fields: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        if not name.endswith(".example"):
            return real(host, port, *args, **fields)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in answers(name)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize("status", [302, 307])
async def test_no_redirect_leads_there(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """`http` judges where it leads; MCP follows none, and says where this one leads."""
    resolving(monkeypatch, lambda _: ["127.0.0.1"])
    async with WebServer(lambda _: Reply(200)) as inside:
        to = ""

        def redirecting(_: Asked) -> Reply:
            return Reply(status, headers=(("Location", to),))

        async with WebServer(redirecting) as front, both(FRONT) as (servers, http):
            url = f"http://{FRONT}:{front.host.partition(':')[2]}/mcp"
            for host in ALL:
                to = f"http://{host}:{inside.host.partition(':')[2]}/mcp"
                failed = (await by_http(http, url)).failure
                assert (failed.code, failed.retryable) == ("unreachable", False), host
                assert REFUSAL in failed.message or "is no URL" in failed.message, host
            with pytest.raises(ServerFailed, match=f"status {status}, a redirect, which is not followed"):
                await servers.list_tools(Endpoint(url))
            assert len(front.asked) >= len(ALL)
        assert inside.connections == 0


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["10.0.0.1", "93.184.215.14"]]
)
async def test_no_name_leads_there(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> None:
    resolving(monkeypatch, lambda _: addresses)
    async with WebServer(lambda _: Reply(200)) as inside, both() as (servers, http):
        url = f"http://inside.example:{inside.host.partition(':')[2]}/mcp"
        assert REFUSAL in (await by_http(http, url)).failure.message
        with pytest.raises(ServerFailed, match=REFUSAL):
            await servers.list_tools(Endpoint(url))
        assert inside.connections == 0


async def test_a_name_that_is_rebound_leads_to_what_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public when it is checked, private an instant later: the connection goes to the checked address."""
    looked_up: list[str] = []

    def answers(name: str) -> list[str]:
        looked_up.append(name)
        return ["93.184.215.14"] if len(looked_up) == 1 else ["127.0.0.1"]

    resolving(monkeypatch, answers)
    tried: list[str] = []

    async def connect(remote_host: str, *_: Any, **__: Any) -> Any:
        tried.append(remote_host)
        raise OSError("no way out of the tests")

    monkeypatch.setattr("anyio.connect_tcp", connect)
    async with both() as (servers, http):
        failed = (await by_http(http, "http://rebound.example/")).failure
        assert (failed.code, tried, looked_up) == ("unreachable", ["93.184.215.14"], ["rebound.example"])
        looked_up.clear()
        with pytest.raises(ServerFailed):
            await servers.list_tools(Endpoint("http://rebound.example/mcp"))
        assert set(tried) == {"93.184.215.14"}
