"""What is no HTTP, or has too long a head, is answered as everything else is: by a problem document."""

import secrets
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import problem
from app.hardening import HEADERS

HEAD_BYTES_MAX = 64 * 1024
"""Request line and headers together: the parser itself knows no limit for them."""


class HeadTooLong(ValueError):
    """Raised within the parser, which then takes the request for none."""


class ProblemProtocol(HttpToolsProtocol):
    """No route has been found yet when a request cannot be parsed: uvicorn would answer plain text."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = True
        self._head_bytes = 0

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response("")
                return
            self._head_bytes += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            raise HeadTooLong
        super().on_headers_complete()

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
