"""The way out for every address that a tenant can choose: no request leaves for a network that is not public.

A host is resolved here, each of its addresses is judged, and the connection goes to the judged address: between
the check and the connection nothing is resolved again. Names of hosts stay in the request, so certificates are
checked as ever. What a deployment wants to reach inside its own network stands in REWIND_EGRESS_ALLOW.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore2
import httpx2

from app.dispatcher.pacing import CountedStream, PacedTransport
from sandbox.config import SettingsError

CONNECT_TIMEOUT_S = 10.0
WRITE_TIMEOUT_S = 60.0
RESOLVERS_MAX = 32
ADDRESSES_MAX = 8
CONNECTIONS_MAX = 100
KEEP_ALIVE_S = 4.0
"""Common servers close an idle connection after 5 s; a call that meets one closing has an unknown outcome."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_REFUSED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "240.0.0.0/4",
        "64:ff9b::/96", "64:ff9b:1::/48", "2001::/23", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
    )
)  # fmt: skip
"""Beside what is not global anyway: ways to write an IPv4 address as IPv6 (NAT64, 6to4, Teredo), shared and reserved ones."""


class EgressRefused(httpcore2.ConnectError):
    """The host is not reachable from here on purpose."""


class ResponseTooLarge(httpx2.ReadError):
    """The server sent more than it may."""


def refusal_of(error: BaseException | None) -> EgressRefused | None:
    """The guard's refusal, when that is why there was no connection."""
    while error is not None and not isinstance(error, EgressRefused):
        error = error.__cause__
    return error


def is_public(address: Address) -> bool:
    """Whether this is an address of the public internet, however it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if int(address) < 1 << 32:  # ::a.b.c.d, an old spelling of an IPv4 address
            return False
    if any(address in network for network in _REFUSED if network.version == address.version):
        return False
    return address.is_global and not address.is_multicast


class Allowed:
    """REWIND_EGRESS_ALLOW: networks (`10.0.0.0/8`, `127.0.0.1`), hosts (`tools.internal`), or `*.internal`."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._networks: list[Network] = []
        self._hosts: set[str] = set()
        self._suffixes: list[str] = []
        for entry in entries:
            self._add(entry.strip().lower().strip("[]"))

    def _add(self, entry: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(entry, strict=False))
            return
        except ValueError:
            pass
        name = entry.removeprefix("*.")
        labels = name.rstrip(".").split(".")
        if not all(label and label.replace("-", "a").replace("_", "a").isalnum() for label in labels):
            raise SettingsError(
                f"REWIND_EGRESS_ALLOW has {entry!r}: name networks like 10.0.0.0/8, hosts, or *.suffixes"
            )
        if name == entry:
            self._hosts.add(name)
        else:
            self._suffixes.append("." + name)

    def host(self, name: str) -> bool:
        name = name.lower().rstrip(".")
        return name in self._hosts or any(name.endswith(suffix) for suffix in self._suffixes)

    def address(self, address: Address) -> bool:
        plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        judged = plain or address
        return any(judged in network for network in self._networks if network.version == judged.version)


_LOOPBACK = ipaddress.ip_address("127.0.0.1")


class GuardedBackend(httpcore2.AnyIOBackend):
    """Connects to checked addresses only."""

    def __init__(self, allowed: Allowed, resolvers: ThreadPoolExecutor) -> None:
        super().__init__()
        self._allowed = allowed
        self._resolvers = resolvers

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked(host, port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout(f"{host} could not be resolved in time") from None
        failure: Exception = EgressRefused(f"{host} has no address")
        for address in addresses[:ADDRESSES_MAX]:
            try:
                return CountedStream(
                    await super().connect_tcp(str(address), port, timeout, local_address, socket_options)
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise EgressRefused("sockets of this machine are not reachable")

    async def _checked(self, host: str, port: int) -> Sequence[Address]:
        """Every address of the host, all of them permitted. One that is not refuses the host as a whole."""
        loop = asyncio.get_running_loop()
        try:
            infos = await loop.run_in_executor(
                self._resolvers, functools.partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            )
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} could not be resolved") from error
        addresses = list(dict.fromkeys(ipaddress.ip_address(info[4][0]) for info in infos))
        if not self._allowed.host(host):
            for address in addresses:
                if not is_public(address) and not self._allowed.address(address):
                    raise EgressRefused(f"{host} is not on the public internet")
        return addresses


class Egress:
    """Makes HTTP clients for addresses that tenants chose. One per process; `close` at its end."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self._resolvers = ThreadPoolExecutor(RESOLVERS_MAX, thread_name_prefix="resolver")
        self._allowed = Allowed(allow)
        self._backend = GuardedBackend(self._allowed, self._resolvers)

    def transport(self, *, connections_max: int = CONNECTIONS_MAX) -> httpx2.AsyncBaseTransport:
        return GuardedTransport(self._backend, connections_max)

    def lists(self, host: str) -> bool:
        """Whether the deployment names this host, or the address that it is, in REWIND_EGRESS_ALLOW."""
        address = _LOOPBACK if _is_localhost(host) else _literal(host)
        return self._allowed.host(host) or (address is not None and self._allowed.address(address))

    def may_be_public(self, host: str) -> bool:
        """False for an address, or a name, that no answer of a resolver makes public. The guard decides."""
        address = _literal(host)
        if address is not None:
            return is_public(address)
        name = host.lower().rstrip(".")
        return "." in name and not name.endswith((".localhost", ".local", ".internal"))

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)


def _is_localhost(host: str) -> bool:
    """These names mean loopback, whatever a resolver says (RFC 6761); the guard looks at the address nevertheless."""
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class GuardedTransport(PacedTransport):
    """A connection pool whose connections are all made by the guard; proxies of the environment are not used."""

    def __init__(self, backend: GuardedBackend, connections_max: int) -> None:
        super().__init__(verify=_certificates(), trust_env=False)
        # httpx2 2.16 has no parameter for this; without it every hostile address in the tests is reached.
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=_certificates(),
            max_connections=connections_max,
            max_keepalive_connections=min(connections_max, CONNECTIONS_MAX),
            keepalive_expiry=KEEP_ALIVE_S,
            network_backend=backend,
        )


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes a while: once for all connections."""
    return httpx2.create_ssl_context(trust_env=False)


def is_compressed(response: httpx2.Response) -> bool:
    """Whether a few bytes of it may stand for very many."""
    return str(response.headers.get("content-encoding", "identity")).strip().lower() != "identity"


class LimitedStream(httpx2.AsyncByteStream):
    """A response's body that ends with ResponseTooLarge beyond `bytes_max`."""

    def __init__(self, stream: httpx2.AsyncByteStream, bytes_max: int) -> None:
        self._stream = stream
        self._left = bytes_max

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise ResponseTooLarge("the answer is larger than it may be")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class LimitedTransport(httpx2.AsyncBaseTransport):
    """Another transport, whose answers are bounded: also as they are read, so none may be compressed."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, bytes_max: int) -> None:
        self._inner = inner
        self._bytes_max = bytes_max

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        if is_compressed(response) or not isinstance(response.stream, httpx2.AsyncByteStream):
            await response.aclose()
            raise ResponseTooLarge("the answer is compressed, unasked: it may be of any size")
        response.stream = LimitedStream(response.stream, self._bytes_max)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
