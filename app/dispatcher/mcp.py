"""MCP servers over streamable HTTP: sessions that are kept, each in a task of its own, made again when they end.

A session's client must live in one task: when its server dies, the library cancels that task's group. Calls
are made from other tasks and fail alone.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from app.dispatcher.egress import CONNECT_TIMEOUT_S, WRITE_TIMEOUT_S, Egress
from app.dispatcher.mcp_http import ANSWER_BYTES_MAX, HttpFailure, McpTransport, Trouble

OPEN_TIMEOUT_S = 20.0
"""Connecting and agreeing on a protocol."""
LIST_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
IDLE_S = 120.0
SESSIONS_MAX = 1_000
PAGES_MAX = 50
IDEMPOTENCY_META = "codes.rewind/idempotency-key"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and what we present to it. The headers hold secrets and are in no representation."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class ServerFailed(Exception):
    """The server did not answer a request: by fault of the way to it, or of its protocol."""

    def __init__(self, failure: HttpFailure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class ServerRefused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


def hush() -> None:
    """Keep the libraries quiet: they log what servers send, and addresses with what customers put into them."""
    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class Session:
    """One connected client in its owner task."""

    def __init__(self, endpoint: Endpoint, egress: Egress, mode: str) -> None:
        self._endpoint = endpoint
        self._egress = egress
        self._mode = mode
        self._leave = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name="mcp session")
        self._client: Client | None = None

    @property
    def alive(self) -> bool:
        return not self._owner.done() and not self._leave.is_set()

    @property
    def mode(self) -> str:
        """What to ask for next time, so that no request is spent on finding it out."""
        assert self._client is not None
        spoken = self._client.protocol_version
        return "legacy" if spoken in HANDSHAKE_PROTOCOL_VERSIONS else spoken

    async def open(self) -> None:
        """Errors: ServerFailed, ServerRefused."""
        try:
            self._client = await asyncio.wait_for(asyncio.shield(self._ready), OPEN_TIMEOUT_S)
        except TimeoutError:
            self._owner.cancel()
            detail = f"the server did not answer within {OPEN_TIMEOUT_S:g} s"
            raise ServerFailed(HttpFailure(Trouble.UNREACHABLE, detail)) from None
        except BaseException:
            self._owner.cancel()
            raise

    async def request(
        self, request: "types.Request[Any, Any]", answer: type[Answer], timeout_s: float
    ) -> Answer:
        """Errors: ServerFailed, ServerRefused, TimeoutError."""
        assert self._client is not None
        sending = asyncio.ensure_future(
            self._client.session.send_request(request, answer, request_read_timeout_seconds=timeout_s)  # type: ignore[type-var]
        )
        try:
            await asyncio.wait({sending, self._owner}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return _answered(sending)
            if self._owner.done():
                raise ServerFailed(HttpFailure(Trouble.BROKEN, "the session with the server ended"))
            raise TimeoutError
        finally:
            if not sending.done():  # lets the client tell the server that nobody waits any more
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await asyncio.wait_for(sending, CLOSE_TIMEOUT_S)

    def close(self) -> None:
        self._leave.set()

    async def closed(self) -> None:
        """Close, and wait until it is done, but not for long."""
        self.close()
        done, _ = await asyncio.wait({self._owner}, timeout=CLOSE_TIMEOUT_S)
        if not done:
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=CLOSE_TIMEOUT_S)

    async def _own(self) -> None:
        try:
            async with (
                httpx2.AsyncClient(
                    transport=McpTransport(self._egress.transport()),
                    headers=[*self._endpoint.headers, ("accept-encoding", "identity")],
                    timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=None, write=WRITE_TIMEOUT_S),
                    trust_env=False,
                    follow_redirects=False,
                ) as http,
                Client(
                    streamable_http_client(
                        self._endpoint.url, http_client=http, max_sse_event_size=ANSWER_BYTES_MAX
                    ),
                    mode=self._mode,
                    cache=None,
                    read_timeout_seconds=OPEN_TIMEOUT_S,
                    client_info=types.Implementation(name="rewind", version=version("rewind-server")),
                ) as client,
            ):
                self._ready.set_result(client)
                await self._leave.wait()
        except asyncio.CancelledError:
            self._fail(ServerFailed(HttpFailure(Trouble.BROKEN, "the session with the server was closed")))
            raise
        except BaseException as error:
            self._fail(_failure(error))
            if not isinstance(error, Exception):
                raise

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # whoever opens gets it; nobody else need have looked


class Servers:
    """Sessions by endpoint: opened for the first call, shared, kept while they are used."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress
        self._sessions: OrderedDict[Endpoint, asyncio.Task[Session]] = OrderedDict()
        self._modes: dict[str, str] = {}
        self._used_at: dict[Endpoint, float] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def call_tool(
        self, endpoint: Endpoint, name: str, args: dict[str, Any], *, key: str, timeout_s: float
    ) -> types.CallToolResult:
        """Call once. A session that the server has forgotten is made anew: it did not execute the call.

        Errors: ServerFailed, ServerRefused, TimeoutError; pydantic.ValidationError for what is no tool result.
        """
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=args, _meta={IDEMPOTENCY_META: key})
        )
        ends = time.monotonic() + timeout_s
        session = await self._session(endpoint)
        try:
            return await session.request(request, types.CallToolResult, timeout_s)
        except ServerFailed as error:
            if not error.failure.stale_session:
                raise
        self._drop(endpoint, session)
        session = await self._session(endpoint)
        return await session.request(request, types.CallToolResult, max(0.0, ends - time.monotonic()))

    async def list_tools(self, endpoint: Endpoint) -> list[types.Tool]:
        """Every tool of the server, asked through a session of its own.

        Errors: ServerFailed, ServerRefused, TimeoutError, pydantic.ValidationError.
        """
        session = Session(endpoint, self._egress, "auto")
        found: list[types.Tool] = []
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                await session.open()
                cursor: str | None = None
                for _ in range(PAGES_MAX):
                    request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
                    page = await session.request(request, types.ListToolsResult, LIST_TIMEOUT_S)
                    found += page.tools
                    cursor = page.next_cursor
                    if cursor is None:
                        return found
        finally:
            await session.closed()
        raise ServerFailed(HttpFailure(Trouble.GARBAGE, f"the list of tools has more than {PAGES_MAX} pages"))

    def tidy(self) -> None:
        """Close what has not been used for a while."""
        idle_since = time.monotonic() - IDLE_S
        for endpoint in [known for known, at in self._used_at.items() if at < idle_since]:
            self._close(endpoint)

    async def close(self) -> None:
        for endpoint in list(self._sessions):
            self._close(endpoint)
        if self._closing:
            await asyncio.wait(self._closing, timeout=2 * CLOSE_TIMEOUT_S)

    async def _session(self, endpoint: Endpoint) -> Session:
        """The session, opened now if need be; callers at the same time wait for the same opening."""
        self._used_at[endpoint] = time.monotonic()
        opening = self._sessions.get(endpoint)
        if opening is not None and opening.done() and not _usable(opening):
            opening = None
        if opening is None:
            while len(self._sessions) >= SESSIONS_MAX:
                self._close(next(iter(self._sessions)))
            opening = asyncio.create_task(self._open(endpoint), name="mcp opening")
            self._sessions[endpoint] = opening
        self._sessions.move_to_end(endpoint)
        return await asyncio.shield(opening)

    async def _open(self, endpoint: Endpoint) -> Session:
        mode = self._modes.get(endpoint.url, "auto")
        session = Session(endpoint, self._egress, mode)
        try:
            await session.open()
        except (ServerFailed, ServerRefused):
            self._modes.pop(endpoint.url, None)  # it may speak another version by now
            raise
        if len(self._modes) >= SESSIONS_MAX:
            self._modes.clear()
        self._modes[endpoint.url] = session.mode
        return session

    def _drop(self, endpoint: Endpoint, session: Session) -> None:
        """Forget a session that is of no use, unless another call has replaced it already."""
        known = self._sessions.get(endpoint)
        if known is not None and known.done() and _usable(known) and known.result() is session:
            self._close(endpoint)

    def _close(self, endpoint: Endpoint) -> None:
        opening = self._sessions.pop(endpoint)
        self._used_at.pop(endpoint, None)
        closing = asyncio.create_task(_close(opening), name="mcp closing")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _usable(opening: "asyncio.Task[Session]") -> bool:
    return not opening.cancelled() and opening.exception() is None and opening.result().alive


async def _close(opening: "asyncio.Task[Session]") -> None:
    try:
        session = await opening
    except (ServerFailed, ServerRefused):
        return
    await session.closed()


def _answered(sending: "asyncio.Future[Answer]") -> Answer:
    error = sending.exception()
    if error is None:
        return sending.result()
    if isinstance(error, MCPError):
        raise _failure(error) from None
    raise error


def _failure(error: BaseException) -> ServerFailed | ServerRefused:
    """What an exception of the client library means."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, MCPError):
        said = f"the server does not speak MCP: {type(error).__name__}"
        return ServerFailed(HttpFailure(Trouble.GARBAGE, said))
    known = HttpFailure.from_error(error.code, error.message, error.data)
    if known is not None:
        return ServerFailed(known)
    if error.code == types.REQUEST_TIMEOUT and error.message.endswith("timed out"):
        return ServerFailed(HttpFailure(Trouble.UNREACHABLE, "the server did not answer in time"))
    if error.code == types.CONNECTION_CLOSED and "byte limit" in error.message:
        return ServerFailed(HttpFailure(Trouble.TOO_LARGE, "the server's answer is too large"))
    if error.code == types.CONNECTION_CLOSED and error.message.startswith(
        ("SSE stream", "Connection closed")
    ):
        return ServerFailed(HttpFailure(Trouble.BROKEN, "the server's answer broke off"))
    if error.code == types.PARSE_ERROR and error.message.startswith("Failed to parse"):
        return ServerFailed(HttpFailure(Trouble.GARBAGE, "the server's answer is no JSON-RPC message"))
    if error.code == types.INVALID_REQUEST and error.message.startswith("server answered a request with 202"):
        return ServerFailed(HttpFailure(Trouble.GARBAGE, "the server accepted the request without an answer"))
    return ServerRefused(error.code, error.message, error.data)
