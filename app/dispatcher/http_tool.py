"""The `http` tool: one request of a script, over as many redirects as it takes, each of them checked anew.

Every hop must be a host that the toolset allows, and is connected to through the egress guard. The headers that a
toolset puts in are chosen by the host of each hop, so a redirect takes no secret along.
"""

from collections.abc import Mapping
from typing import Any

import httpx2

from app.body import VALUE_BYTES_MAX
from app.dispatcher.egress import CONNECT_TIMEOUT_S, WRITE_TIMEOUT_S, Egress, ResponseTooLarge, refusal_of
from app.dispatcher.endpoints import SecretMissing
from app.dispatcher.http_request import (
    HttpSpec,
    Outgoing,
    RequestRefused,
    outgoing,
    redirected,
    value_of_answer,
)
from app.dispatcher.redaction import Redactor
from app.dispatcher.results import failed
from app.large import beside_loop, note_body
from app.tasks.settling import TOOL_FAILED
from sandbox.journal.ids import Json

REDIRECTS_MAX = 10
REDIRECTS = frozenset({301, 302, 303, 307, 308})
CONNECTIONS_MAX = 4_000
ANSWER_BYTES_MAX = VALUE_BYTES_MAX
EXCERPT_CHARS = 300


class HttpTool:
    """Connections are shared by all toolsets; nothing that a server sets is kept between requests."""

    def __init__(self, egress: Egress) -> None:
        self._transport = egress.transport(connections_max=CONNECTIONS_MAX)

    async def request(
        self,
        spec: HttpSpec,
        secrets: Mapping[str, str],
        args: Mapping[str, Any],
        *,
        key: str,
        timeout_s: float,
        redactor: Redactor,
    ) -> Json:
        """The answer as the script gets it. Errors: ToolFailed. The caller keeps the time of the whole."""
        try:
            request = outgoing(args, key)
            for _ in range(REDIRECTS_MAX + 1):
                response = await self._send(spec, secrets, request, timeout_s)
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or location is None:
                    return await self._read(response, request, redactor)
                await response.aclose()
                request = redirected(request, response.status_code, location)
        except RequestRefused as error:
            raise failed(error.code, str(error)) from None
        except SecretMissing as error:
            raise failed("unauthorized", str(error)) from None
        raise failed(TOOL_FAILED, f"the server redirects more than {REDIRECTS_MAX} times")

    async def close(self) -> None:
        await self._transport.aclose()

    async def _send(
        self, spec: HttpSpec, secrets: Mapping[str, str], request: Outgoing, timeout_s: float
    ) -> httpx2.Response:
        if not spec.permits(request.url):
            raise RequestRefused(
                "unreachable",
                f"the toolset does not allow the host {request.url.netloc.decode()!r}: `http.allow` names those that it does",
            )
        ours = spec.headers_for(request.url, secrets)
        headers = [pair for pair in request.headers if pair[0] not in ours]
        headers += [("accept-encoding", "identity"), *ours.items()]
        times = {"connect": CONNECT_TIMEOUT_S, "read": timeout_s, "write": WRITE_TIMEOUT_S, "pool": timeout_s}
        sent = httpx2.Request(
            request.method,
            request.url,
            headers=headers,
            content=request.body or None,
            extensions={"timeout": times},
        )
        try:
            return await self._transport.handle_async_request(sent)
        except httpx2.TransportError as error:
            raise _not_answered(error, idempotent=request.idempotent) from None

    async def _read(self, response: httpx2.Response, request: Outgoing, redactor: Redactor) -> Json:
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise ResponseTooLarge("too large")
        except ResponseTooLarge:
            raise failed(
                "too_large", f"the server's answer has more than {ANSWER_BYTES_MAX:,} bytes"
            ) from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            raise _not_answered(error, idempotent=request.idempotent) from None
        finally:
            await response.aclose()
        pairs = response.headers.multi_items()
        note_body(len(body))
        return await beside_loop(_value, response.status_code, pairs, bytes(body), redactor)


def _value(status: int, headers: list[tuple[str, str]], body: bytes, redactor: Redactor) -> Json:
    return value_of_answer(status, headers, redactor.data(body))


def _not_answered(error: Exception, *, idempotent: bool) -> Exception:
    if (refused := refusal_of(error)) is not None:
        return failed("unreachable", f"the server's address is refused: {refused}")
    said = " ".join(str(error).split())[:EXCERPT_CHARS] or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return failed("unreachable", f"no connection to the server: {said}", retryable=True)
    return failed("unreachable", f"the server did not answer: {said}", retryable=idempotent)
