"""MCP's HTTP as its client sees it: what goes wrong with one request is the answer to that request.

The client library (mcp 2.3) ends its whole session, with every call in flight, when one request meets a broken
connection. So failures are turned into answers here: a JSON-RPC error, marked so that no server can forge one,
with what is known of the request: whether it was sent, and what the server said.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import httpx2
import orjson

from app.dispatcher.batches import STREAM, UnbatchedStream, may_come_in_batches, unbatched_body
from app.dispatcher.egress import LimitedStream, ResponseTooLarge, is_compressed, refusal_of
from app.dispatcher.oauth import TokenRefused
from app.dispatcher.pacing import PacedLines

ANSWER_BYTES_MAX = 40 * 1024 * 1024
"""Of one answer on the wire: a result of 16 MiB, escaped."""
STREAM_BYTES_MAX = 4 * ANSWER_BYTES_MAX
"""Of an answer that comes as a stream of events, each of which has ANSWER_BYTES_MAX."""
ERROR_BYTES_MAX = 64 * 1024
ABANDONED_S = 5.0
"""An answer that nobody waits for any more is read so long: the server has been told, and may end it itself."""
EXCERPT_CHARS = 300
CODE = -32099
_MARK = secrets.token_hex(16)


class Trouble(StrEnum):
    """What became of a request."""

    REFUSED = "refused"
    """The address is not one that we connect to. Not sent."""
    UNREACHABLE = "unreachable"
    """No connection. Not sent."""
    BROKEN = "broken"
    """The connection ended before the answer was complete."""
    STATUS = "status"
    TOO_LARGE = "too_large"
    GARBAGE = "garbage"


@dataclass(frozen=True, slots=True)
class HttpFailure:
    trouble: Trouble
    detail: str
    status: int = 0
    session: bool = False
    """The request belonged to a session of the server."""
    rpc_code: int | None = None
    """Of the JSON-RPC error in the answer's body."""
    rpc_said: str = ""
    rpc_data: Any = None

    @property
    def stale_session(self) -> bool:
        """The server does not know our session: it has not executed the request."""
        if self.trouble is not Trouble.STATUS or not self.session:
            return False
        return self.status == 404 or (self.status == 400 and self.rpc_code in {None, -32000, -32001, -32600})

    @property
    def is_answer(self) -> bool:
        """The body says more than the status: a JSON-RPC error that is the answer to the request."""
        return self.rpc_code is not None and self.status in {400, 404} and not self.stale_session

    @property
    def not_understood(self) -> bool:
        """The server has refused the request unread: it may speak another version by now."""
        return self.trouble is Trouble.STATUS and self.status in {400, 404, 405} and not self.session

    def to_error(self) -> dict[str, Any]:
        if self.is_answer:
            return {"code": self.rpc_code, "message": self.rpc_said, "data": self.rpc_data}
        data = {
            "trouble": self.trouble, "status": self.status, "session": self.session, "rpc_code": self.rpc_code
        }  # fmt: skip
        return {"code": CODE, "message": self.detail, "data": {_MARK: data}}

    @classmethod
    def from_error(cls, code: int, message: str, data: Any) -> Self | None:
        """Read back what `to_error` wrote; None for an error of the server's own."""
        if code != CODE or not isinstance(data, dict) or _MARK not in data:
            return None
        known = data[_MARK]
        return cls(Trouble(known["trouble"]), message, known["status"], known["session"], known["rpc_code"])


class Waiting:
    """How long the answer to a request is read: as long as somebody waits for it.

    The library (mcp 2.3) tells servers of the handshake's versions that nobody waits, and goes on reading: a server
    that does not care would hold a connection for ever.
    """

    def __init__(self) -> None:
        self.bytes = 0
        """Of the answer, read so far."""
        self._ends_at: float | None = None
        self._limit: asyncio.Timeout | None = None

    def abandon(self) -> None:
        self._ends_at = asyncio.get_running_loop().time() + ABANDONED_S
        if self._limit is not None:
            self._limit.reschedule(self._ends_at)

    @contextlib.asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        """Around whatever waits for the server. Errors: ReadTimeout, when it has been abandoned."""
        try:
            async with asyncio.timeout_at(self._ends_at) as limit:
                self._limit = limit
                try:
                    yield
                finally:
                    self._limit = None
        except TimeoutError:
            raise httpx2.ReadTimeout("nobody waits for the answer any more") from None


WAITING: ContextVar[Waiting | None] = ContextVar("waiting", default=None)
"""Of the request that is sent in this context: the library sends in the context of its caller."""


class _Awaited(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, waiting: Waiting) -> None:
        self._stream = stream
        self._waiting = waiting

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts = aiter(self._stream)
        while True:
            async with self._waiting.patience():
                part = await anext(parts, None)
            if part is None:
                return
            self._waiting.bytes += len(part)
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class McpTransport(httpx2.AsyncBaseTransport):
    """Answers every POST; streams that no call needs are not opened."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.stateful = False
        """The server keeps a session for us."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET" and "last-event-id" not in request.headers:
            return httpx2.Response(405, request=request)  # the stream of what servers say unasked
        if request.method != "POST":
            resumed = await self._sent(request)
            if is_compressed(resumed):
                await resumed.aclose()
                return httpx2.Response(502, request=request)
            return _streamed(request, resumed)
        session = "mcp-session-id" in request.headers
        self.stateful = self.stateful or session
        try:
            response = await self._sent(request)
        except httpx2.TransportError as error:
            return _failed(_not_answered(error))
        try:
            if response.status_code == 202:
                await response.aclose()
                return httpx2.Response(202)
            if response.status_code >= 300:
                return _failed(await _refusal(response, session=session))
            if is_compressed(response):
                await response.aclose()
                return _failed(HttpFailure(Trouble.GARBAGE, "the server sent a compressed answer, unasked"))
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == STREAM:
                return _streamed(request, response)
            body = await _read(response, ANSWER_BYTES_MAX)
        except ResponseTooLarge:
            return _failed(HttpFailure(Trouble.TOO_LARGE, "the server's answer is too large"))
        except httpx2.TransportError as error:
            return _failed(HttpFailure(Trouble.BROKEN, f"the server's answer broke off: {_words(error)}"))
        if kind != "application/json":
            said = f"the server answered with {kind[:80] or 'no content type'!r} instead of JSON"
            return _failed(HttpFailure(Trouble.GARBAGE, said))
        if may_come_in_batches(request) and (events := unbatched_body(body)) is not None:
            return httpx2.Response(response.status_code, headers={"content-type": STREAM}, content=events)
        headers = {"content-type": "application/json"}
        if (id_ := response.headers.get("mcp-session-id")) is not None:
            headers["mcp-session-id"] = id_
        return httpx2.Response(response.status_code, headers=headers, content=body)

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, which ends soon after nobody waits for it any more."""
        waiting = WAITING.get() or Waiting()
        async with waiting.patience():
            response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Awaited(response.stream, waiting)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _failed(failure: HttpFailure) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": failure.to_error()}
    return httpx2.Response(500, headers={"content-type": "application/json"}, content=orjson.dumps(error))


def _limited(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    return httpx2.Response(
        response.status_code,
        headers=response.headers,
        stream=PacedLines(LimitedStream(stream, STREAM_BYTES_MAX)),
        request=request,
    )


def _streamed(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    limited = _limited(request, response)
    if not may_come_in_batches(request):
        return limited
    headers = {"content-type": response.headers.get("content-type", "")}
    return httpx2.Response(
        response.status_code, headers=headers, stream=UnbatchedStream(limited, ANSWER_BYTES_MAX)
    )


async def _read(response: httpx2.Response, bytes_max: int) -> bytes:
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    try:
        return b"".join([chunk async for chunk in LimitedStream(stream, bytes_max)])
    finally:
        await response.aclose()


async def _refusal(response: httpx2.Response, *, session: bool) -> HttpFailure:
    """A status that is no success, with what the server says about it."""
    said, rpc_code, rpc_said, rpc_data = "", None, "", None
    try:
        body = await _read(response, ERROR_BYTES_MAX)
    except httpx2.TransportError:
        body = b""
    try:
        error = orjson.loads(body)["error"]
        rpc_code, rpc_said, rpc_data = int(error["code"]), str(error["message"]), error.get("data")
        said = rpc_said
    except (ValueError, TypeError, KeyError, AttributeError):
        if response.headers.get("content-type", "").startswith("text/plain"):
            said = body.decode(errors="replace")
    detail = f"the server answered with status {response.status_code}"
    if said := " ".join(said.split())[:EXCERPT_CHARS]:
        detail += f": {said}"
    elif response.status_code < 400 and (to := response.headers.get("location")) is not None:
        detail += f", a redirect, which is not followed: register the address that it leads to, {to[:EXCERPT_CHARS]!r}"
    return HttpFailure(Trouble.STATUS, detail, response.status_code, session, rpc_code, rpc_said, rpc_data)


def _not_answered(error: httpx2.TransportError) -> HttpFailure:
    if isinstance(error, TokenRefused):
        return HttpFailure(Trouble.STATUS, str(error), 401)
    if (refused := refusal_of(error)) is not None:
        return HttpFailure(Trouble.REFUSED, f"the server's address is refused: {refused}")
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return HttpFailure(Trouble.UNREACHABLE, f"no connection to the server: {_words(error)}")
    return HttpFailure(Trouble.BROKEN, f"the server did not answer: {_words(error)}")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:EXCERPT_CHARS] or type(error).__name__
