"""HTTP as clients speak it to us, and who does not: what is no HTTP is answered by a problem document, like all else.

Who is slow costs nothing but a connection, and not for ever: a head, a body and the reading of an answer each have a
pace that every network of today has. Whoever keeps below it is hung up on.
"""

import asyncio
import secrets
import socket
from enum import Enum
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import problem
from app.hardening import HEADERS

HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers together: the parser itself knows no limit for them."""
HEAD_S = 30.0
"""From the first byte of a request, or from the connection, to the end of its headers."""
PACE_S = 30.0
BODY_BYTES_LEAST = 16 * 1024
"""Of a body, in each PACE_S while we read."""
READING_S = 60.0
"""In which a client takes what makes room for more of its answer, some 48 KiB."""
UNREAD_BYTES_MAX = 1024 * 1024
"""Of a body that was answered unread: so much is thrown away in peace, then the connection ends."""
LOOK_EVERY_S = 5.0
GONE_MS = 60_000
"""A client that confirms nothing of what it is sent is gone: the kernel says so after this, not after 15 minutes."""


class HeadTooLong(ValueError):
    """Raised within the parser, which then takes the request for none."""


class Phase(Enum):
    IDLE = "between two requests: how long is uvicorn's to say"
    HEAD = "of a request, or before the first one"
    BODY = "of a request whose head is complete"


class ProblemProtocol(HttpToolsProtocol):
    """No route has been found yet when a request cannot be parsed: uvicorn would answer plain text."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._head_bytes = 0
        self._phase = Phase.HEAD
        self._since = 0.0
        """When the phase began, or when a body last had made its pace."""
        self._body_bytes = 0
        """Since then."""
        self._stalled_since: float | None = None
        """The client does not take its answer."""
        self._looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GONE_MS)
        self._since = self.loop.time()
        self._looking = self.loop.call_later(LOOK_EVERY_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    # -- Requests

    def data_received(self, data: bytes) -> None:
        if self._phase is Phase.IDLE:
            self._phase, self._since = Phase.HEAD, self.loop.time()
        if self._phase is Phase.HEAD:
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response("")
                return
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._phase, self._since = Phase.HEAD, self.loop.time()
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._phase, self._since, self._body_bytes = Phase.BODY, self.loop.time(), 0
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            raise HeadTooLong
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self.cycle.response_complete and self._body_bytes > UNREAD_BYTES_MAX:
            self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._phase = Phase.IDLE
        self._head_bytes = 0
        super().on_message_complete()

    # -- Paces

    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def _look(self) -> None:
        if self._is_too_slow(self.loop.time()):
            self.transport.abort()
            return
        self._looking = self.loop.call_later(LOOK_EVERY_S, self._look)

    def _is_too_slow(self, now: float) -> bool:
        if self._stalled_since is not None and now - self._stalled_since > READING_S:
            return True
        if self._phase is Phase.HEAD:
            return now - self._since > HEAD_S
        if self._phase is Phase.IDLE:
            return False
        if self.flow.read_paused and not self.cycle.response_complete:  # it waits for us
            self._since, self._body_bytes = now, 0
        if now - self._since <= PACE_S:
            return False
        slow = self._body_bytes < BODY_BYTES_LEAST
        self._since, self._body_bytes = now, 0
        return slow

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 # always the same words
        response = problem(
            "req_" + secrets.token_hex(12),
            status=400,
            code="invalid_request",
            detail=f"This is no HTTP/1.1 request, or its address and headers exceed {HEAD_BYTES_MAX:,} bytes.",
            headers={**HEADERS, "Cache-Control": "no-store", "Connection": "close"},
        )
        head = b"".join(b"%b: %b\r\n" % pair for pair in response.raw_headers)
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\n" + head + b"\r\n" + bytes(response.body))
        self.transport.close()
