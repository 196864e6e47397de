"""What is no HTTP, or has too long a head, is answered as everything else is: by a problem document."""

import secrets

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import problem
from app.hardening import HEADERS

HEAD_BYTES_MAX = 64 * 1024
"""Of the parser: request line and headers together."""


class ProblemProtocol(HttpToolsProtocol):
    """No route has been found yet when a request cannot be parsed: uvicorn would answer plain text."""

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
