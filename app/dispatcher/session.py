"""One session with an MCP server, in a task of its own.

A session's client must live in one task: when its server dies, the library cancels that task's group. Calls
are made from other tasks and fail alone. Only this file, `listing` and `mcp_tasks` import the client library.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from app.dispatcher.egress import CONNECT_TIMEOUT_S, WRITE_TIMEOUT_S, Egress
from app.dispatcher.endpoints import Endpoint
from app.dispatcher.listing import TASK, restored, schemas_aside
from app.dispatcher.mcp import CLOSE_TIMEOUT_S, Mirrors, ServerFailed, ServerRefused
from app.dispatcher.mcp_http import (
    ANSWER_BYTES_MAX,
    WAITING,
    HttpFailure,
    McpTransport,
    Trouble,
    Waiting,
)
from app.dispatcher.mcp_tasks import as_task, result_of
from app.dispatcher.oauth import OAuthTransport, Tokens
from app.large import note_body

OPEN_TIMEOUT_S = 20.0
"""Connecting and agreeing on a protocol."""
CONNECTIONS_MAX = 4_000
"""Of a session, which toolsets may share: as many as the dispatcher has calls in the air."""
TASKS_VERSION = "2025-11-25"
"""The one version of the protocol that has tasks."""
IDEMPOTENCY_META = "codes.rewind/idempotency-key"

SESSION_CODES = frozenset({-32000, -32001, -32600, -32603})
SESSION_GONE = re.compile(
    r"(?i)\b(?:session\b.{0,40}\b(?:not found|expired|invalid|unknown|terminated|closed|does not exist)"
    r"|(?:no valid|invalid|unknown|expired|missing|no such) session)\b"
)
"""How servers say, with status 200, that they have forgotten a session: they have not executed the request."""

_VERSION_REFUSED = "Unsupported protocol version from the server: "
VERSIONS_CHARS_MAX = 200

Answer = TypeVar("Answer")


class Session:
    """One connected client in its owner task."""

    def __init__(self, endpoint: Endpoint, egress: Egress, tokens: Tokens, mode: str) -> None:
        self._endpoint = endpoint
        self._egress = egress
        self._tokens = tokens
        self._mode = mode
        self._http = McpTransport(self._transport())
        self._leave = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name="mcp session")
        self._client: Client | None = None
        self.version = ""
        """Of the protocol, as it was agreed."""
        self.read_bytes = 0
        """Of all answers so far."""
        self._requests = 0
        self._retired = False

    @property
    def alive(self) -> bool:
        """Whether it may be given another request."""
        return not self._owner.done() and not self._retired

    @property
    def stateful(self) -> bool:
        """The server keeps a session for us: what it has in it would be lost with it."""
        return self._http.stateful

    @property
    def running(self) -> bool:
        return not self._owner.done()

    def on_end(self, done: "Callable[[Session], None]") -> None:
        self._owner.add_done_callback(lambda _: done(self))

    @property
    def mode(self) -> str:
        """What to ask for next time, so that no request is spent on finding it out."""
        return "legacy" if self.version in HANDSHAKE_PROTOCOL_VERSIONS else self.version

    async def open(self) -> None:
        """Errors: ServerFailed, ServerRefused."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                self._client = await asyncio.shield(self._ready)
            self.version = self._client.protocol_version
        except TimeoutError:
            self._owner.cancel()
            detail = f"the server did not answer within {OPEN_TIMEOUT_S:g} s"
            raise ServerFailed(HttpFailure(Trouble.UNREACHABLE, detail)) from None
        except BaseException:
            self._owner.cancel()
            raise

    async def call_tool(
        self,
        name: str,
        args: dict[str, Any],
        *,
        key: str,
        timeout_s: float,
        mirrors: Mirrors,
        task: bool,
    ) -> types.CallToolResult:
        """`mirrors`: arguments that go into headers too, where the version has such. `task`: the tool runs as one.

        Errors: ServerFailed, ServerRefused, TimeoutError; pydantic.ValidationError.
        """
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=args, _meta={IDEMPOTENCY_META: key})
        )
        if not (task and self.version == TASKS_VERSION):
            result = await self._request(request, types.CallToolResult, timeout_s, mirrors={name: mirrors})
            if TASK in (result.meta or {}):
                raise ServerFailed(HttpFailure(Trouble.GARBAGE, "the server answered with a task, unasked"))
            return result
        ends_at_s = time.monotonic() + timeout_s
        self._requests += 1  # the session must not end between two questions
        try:
            first = await self._request(as_task(request, timeout_s), types.CallToolResult, timeout_s)
            return await result_of(first, self._request, ends_at_s=ends_at_s)
        finally:
            self._done()

    async def list_tools(
        self, cursor: str | None, *, timeout_s: float
    ) -> tuple[list[types.Tool], str | None]:
        """One page, and where the next one begins."""
        request = types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor))
        page = await self._request(request, types.ListToolsResult, timeout_s)
        return [restored(tool, modern=self.mode != "legacy") for tool in page.tools], page.next_cursor

    async def _request(
        self,
        request: types.Request[Any, Any],
        answer: type[Answer],
        timeout_s: float,
        *,
        mirrors: Mapping[str, Mirrors] | None = None,
    ) -> Answer:
        """Errors: ServerFailed, ServerRefused, TimeoutError."""
        assert self._client is not None
        session, waiting = self._client.session, Waiting()

        async def send() -> Answer:
            WAITING.set(waiting)
            if mirrors is not None:  # the library takes them from a list, and reads them as soon as it sends
                session._x_mcp_header_maps = {tool: dict(paths) for tool, paths in mirrors.items()}
            return await session.send_request(request, answer, request_read_timeout_seconds=timeout_s)  # type: ignore[type-var]

        self._requests += 1
        sending = asyncio.ensure_future(send())
        try:
            await asyncio.wait({sending, self._owner}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                note_body(waiting.bytes)
                return _answered(sending, session=self.mode == "legacy")
            if self._owner.done():
                raise ServerFailed(HttpFailure(Trouble.BROKEN, "the session with the server ended"))
            raise TimeoutError
        finally:
            self.read_bytes += waiting.bytes
            self._done()
            if not sending.done():  # lets the client tell the server that nobody waits any more
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await sending
                waiting.abandon()

    def _done(self) -> None:
        self._requests -= 1
        if self._retired and not self._requests:
            self._leave.set()

    def retire(self) -> None:
        """Close as soon as no request is under way."""
        self._retired = True
        if not self._requests:
            self._leave.set()

    async def closed(self) -> None:
        """Close now, and wait until it is done, but not for long."""
        self._retired = True
        self._leave.set()
        done, _ = await asyncio.wait({self._owner}, timeout=CLOSE_TIMEOUT_S)
        if not done:
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=CLOSE_TIMEOUT_S)

    async def _own(self) -> None:
        try:
            async with (
                httpx2.AsyncClient(
                    transport=self._http,
                    headers=[*self._endpoint.headers, ("accept-encoding", "identity")],
                    timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=None, write=WRITE_TIMEOUT_S),
                    trust_env=False,
                    follow_redirects=False,
                ) as http,
                Client(
                    schemas_aside(
                        streamable_http_client(
                            self._endpoint.url, http_client=http, max_sse_event_size=ANSWER_BYTES_MAX
                        )
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

    def _transport(self) -> httpx2.AsyncBaseTransport:
        inner = self._egress.transport(connections_max=CONNECTIONS_MAX)
        grant = self._endpoint.grant
        return inner if grant is None else OAuthTransport(inner, self._tokens, grant)

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # whoever opens gets it; nobody else need have looked


def _answered(sending: "asyncio.Future[Answer]", *, session: bool) -> Answer:
    """`session`: the server may answer that it does not know ours, as an error like any other."""
    error = sending.exception()
    if error is None:
        return sending.result()
    if not isinstance(error, MCPError):
        raise error
    failure = _failure(error)
    refused = isinstance(failure, ServerRefused) and failure.code in SESSION_CODES
    if session and refused and SESSION_GONE.search(str(failure)):
        raise ServerFailed(HttpFailure(Trouble.STATUS, str(failure), 404, session=True)) from None
    raise failure from None


def _failure(error: BaseException) -> ServerFailed | ServerRefused:
    """What an exception of the client library means."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, MCPError):
        said = f"the server does not speak MCP: {type(error).__name__}"
        if str(error).startswith(_VERSION_REFUSED):  # the library's, of what a handshake was answered with
            said = _unspoken(str(error).removeprefix(_VERSION_REFUSED))
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
    if error.code == types.UNSUPPORTED_PROTOCOL_VERSION and isinstance(error.data, dict):
        theirs = error.data.get("supported")
        if isinstance(theirs, list) and not set(HANDSHAKE_PROTOCOL_VERSIONS).union(
            MODERN_PROTOCOL_VERSIONS
        ) & {*map(str, theirs)}:
            return ServerRefused(error.code, _unspoken(", ".join(map(str, theirs))), error.data)
    return ServerRefused(error.code, error.message, error.data)


def _unspoken(theirs: str) -> str:
    ours = ", ".join((*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS))
    return f"the server speaks MCP {theirs[:VERSIONS_CHARS_MAX]}, and Rewind speaks {ours}"
