"""HTTP/1.1 over asyncio: keep-alive connections to one server, one request in flight on each.

Written on `httptools` because an exchange of the host-tool worker has a CPU budget of 150 µs on this side.

Invariant: a connection goes back to the pool only after a whole answer that allows keep-alive; one that was
cancelled, timed out or said anything unasked is closed.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast
from urllib.parse import urlsplit

import httptools

from rewind._errors import ConfigurationError, ConnectionFailed, RequestTimeout


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on what one server may cost this process; sizes in bytes, times in seconds."""

    connections_max: int = 100
    head_bytes_max: int = 64 * 1024
    body_bytes_max: int = 64 * 1024 * 1024
    connect_timeout_s: float = 10.0
    idle_s_max: float = 4.0
    """Idle connections are not reused after this: many servers close them at 5 s."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[bytes, bytes]
    """Names in lower case; of a repeated header the last value."""
    body: bytes

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is: parsed once from its base URL."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @classmethod
    def parse(cls, url: str) -> "Address":
        try:
            parts = urlsplit(url.strip())
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"{url!r} is no address: {error}") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigurationError(
                f"{url!r} is no address: it must look like https://host or http://host:port"
            )
        if parts.query or parts.fragment or parts.username:
            raise ConfigurationError(
                f"{url!r}: an address has no query, fragment or user; give the key as api_key"
            )
        tls = parts.scheme == "https"
        return cls(
            url=url.strip().rstrip("/"),
            host=parts.hostname,
            port=port or (443 if tls else 80),
            tls=tls,
            prefix=parts.path.rstrip("/"),
        )


class Connection(asyncio.Protocol):
    """One TCP (or TLS) connection and the answer being read from it."""

    def __init__(self, limits: Limits, on_lost: Callable[["Connection"], None]) -> None:
        self._limits = limits
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[Response] | None = None
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._head_bytes = 0
        """Received since the last whole answer while no body was being read: bounds a head that never ends."""
        self._header_bytes = 0
        self._body_bytes = 0
        self._in_body = False
        self._keep_alive = False
        self._failure: str | None = None
        self.closed = False
        self.idle_since = 0.0

    # -- requests

    async def exchange(self, request: bytes, deadline: float, timeout_s: float) -> Response:
        """Send and read one answer; `deadline` is the loop's time, `timeout_s` what the caller had asked for."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Response] = loop.create_future()
        self._waiter = waiter
        expiry = loop.call_at(deadline, self._expire, timeout_s)
        assert self._transport is not None
        self._transport.write(request)
        try:
            return await waiter
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            expiry.cancel()
            self._waiter = None

    @property
    def reusable(self) -> bool:
        return self._keep_alive and not self.closed

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def _expire(self, timeout_s: float) -> None:
        self._fail(RequestTimeout(f"no answer within {timeout_s:g} s"))

    def _fail(self, error: ConnectionFailed) -> None:
        self.abort()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        if not self._in_body:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(ConnectionFailed("the server switched protocols without being asked"))
        except httptools.HttpParserError as error:
            self._fail(ConnectionFailed(self._failure or f"the server's answer is not HTTP: {error}"))
        if not self._in_body and self._head_bytes > self._limits.head_bytes_max:
            self._fail(ConnectionFailed(self._head_too_large()))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._on_lost(self)
        if self._waiter is None or self._waiter.done():
            return
        if exc is None and self._in_body and self._ends_with_connection():
            self._answer()
            return
        how = f": {exc}" if exc else ""
        when = "in the middle of its answer" if self._head_bytes else "before it answered"
        self._waiter.set_exception(ConnectionFailed(f"the server closed the connection {when}{how}"))

    # -- httptools callbacks

    def on_message_begin(self) -> None:
        self._headers = {}
        self._body = []
        self._body_bytes = 0
        self._in_body = False
        self._header_bytes = 0
        if self._waiter is None or self._waiter.done():
            self._refuse("the server answered a request that was never made")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > self._limits.head_bytes_max:
            self._refuse(self._head_too_large())
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._in_body = True
        self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes_max:
            self._refuse(f"the server's answer is larger than {self._limits.body_bytes_max} bytes")
        self._body.append(data)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._head_bytes = 0
        if self._parser.get_status_code() >= 200:
            self._answer()

    def _answer(self) -> None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(Response(self._parser.get_status_code(), self._headers, body))

    def _ends_with_connection(self) -> bool:
        return b"content-length" not in self._headers and b"transfer-encoding" not in self._headers

    def _head_too_large(self) -> str:
        return f"the head of the server's answer is larger than {self._limits.head_bytes_max} bytes"

    def _refuse(self, message: str) -> None:
        self._failure = message
        raise ValueError(message)


OwnConnection = TypeVar("OwnConnection", bound=Connection)


class Transport:
    """Requests to one server over a pool of connections; safe for any number of concurrent tasks."""

    def __init__(
        self, address: Address, *, limits: Limits | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.limits = limits or Limits()
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._slots = asyncio.Semaphore(self.limits.connections_max)

    async def request(self, head: bytes, body: bytes, timeout_s: float) -> Response:
        """Send one request and return the whole answer.

        `head` comes from `http_head`: request line and headers, without Content-Length and the blank line.
        Errors: ConnectionFailed (`sent` tells whether the server can have seen it), RequestTimeout.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        deadline = loop.time() + timeout_s
        await self._slot(timeout_s)
        try:
            connection = self._take_idle(loop.time()) or await self._connect(loop, deadline, Connection)
            data = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
            response = await connection.exchange(data, deadline, timeout_s)
            if connection.reusable:
                connection.idle_since = loop.time()
                self._idle.append(connection)
            else:
                connection.abort()
            return response
        finally:
            self._slots.release()

    async def aclose(self) -> None:
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the connections of an event loop that is gone (the client outlived an `asyncio.run`)."""
        self._loop = loop
        self._idle.clear()
        self._open.clear()
        self._slots = asyncio.Semaphore(self.limits.connections_max)

    async def _slot(self, timeout_s: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"no connection was free within {timeout_s:g} s ({self.limits.connections_max} in use)",
                sent=False,
            ) from None

    def _take_idle(self, now: float) -> Connection | None:
        """The connection used last, so that the others grow old and go."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and now - connection.idle_since < self.limits.idle_s_max:
                return connection
            connection.abort()
        return None

    async def connect_alone(self, deadline: float, kind: type[OwnConnection]) -> OwnConnection:
        """A connection that never joins the pool and takes no slot of it: its answer may last for days."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._bind(loop)
        return await self._connect(loop, deadline, kind)

    async def _connect(
        self, loop: asyncio.AbstractEventLoop, deadline: float, kind: type[OwnConnection]
    ) -> OwnConnection:
        patience = min(deadline - loop.time(), self.limits.connect_timeout_s)
        try:
            async with asyncio.timeout(patience):
                _, connection = await loop.create_connection(
                    lambda: kind(self.limits, self._forget),
                    self.address.host,
                    self.address.port,
                    ssl=self._tls,
                )
        except TimeoutError:
            raise RequestTimeout(
                f"{self.address.url} did not accept a connection in time", sent=False
            ) from None
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error) or type(error).__name__
            raise ConnectionFailed(f"cannot reach {self.address.url}: {reason}", sent=False) from error
        self._open.add(connection)
        return connection

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)


def http_head(method: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """Request line and headers as bytes; refuses what would break out of a line."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), ""]
    for line in lines:
        if "\r" in line or "\n" in line or "\0" in line:
            raise ConfigurationError("a header or path contains a line break")
    try:
        return "\r\n".join(lines).encode("latin-1")
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"a header contains {error.object[error.start]!r}, which HTTP can't carry"
        ) from None
