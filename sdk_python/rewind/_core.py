"""One API call from Python values to a decoded answer: encoding, headers, retries, errors, debug log."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from rewind._config import Config, logger
from rewind._errors import ApiError, ConfigurationError, ConnectionFailed, api_error
from rewind._events import ServerEvent, open_stream, parsed
from rewind._retry import delay_s, may_retry, parse_retry_after
from rewind._transport import Response, Transport, http_head
from rewind._types import CallOptions, Entry

LONG_POLL_MARGIN_S = 10.0
"""Added to the time that the server was asked to wait, before this side gives up."""

STREAM_SILENCE_S = 45.0
"""A stream that says nothing for so long is taken for dead: the server comments every 15 s."""
RESUMES_MAX = 12
"""Attempts in a row to resume a stream: more than a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request as the resources describe it. `repeatable`: sending it twice does the work once."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    body: Any = None
    repeatable: bool = False
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Decoded:
    data: Any
    request_id: str | None


class AsyncCore:
    """What all resources of one client share. Sends calls; knows nothing of what they mean."""

    def __init__(self, config: Config, transport: Transport | None = None) -> None:
        self.config = config
        self.transport = transport or Transport(config.address)
        self._base_headers = [
            ("Host", config.address.authority),
            ("Authorization", f"Bearer {config.secret}"),
            ("User-Agent", config.user_agent),
            ("Accept", "application/json"),
        ]

    async def call(self, call: Call, options: CallOptions) -> Decoded:
        """Send, retry where that is safe, and return the decoded answer.

        Errors: ApiError by status; ConnectionFailed, RequestTimeout.
        """
        head = self._head(call, options)
        body = b"" if call.body is None else encode(call.body)
        repeatable = (
            call.repeatable or call.method in {"GET", "PUT", "DELETE"} or "idempotency_key" in options
        )
        timeout_s = _timeout_s(options, self.config.timeout_s) + (
            call.wait_s + LONG_POLL_MARGIN_S if call.wait_s else 0.0
        )
        retries = options.get("max_retries", self.config.max_retries)
        attempt = 1
        while True:
            try:
                response = await self._send(call, head, body, timeout_s)
                return decode(response)
            except (ApiError, ConnectionFailed) as error:
                if attempt > retries or not may_retry(error, repeatable=repeatable):
                    raise
                pause = delay_s(attempt, error)
                logger.debug("%s %s: %s; again in %.2f s", call.method, call.path, error, pause)
            await asyncio.sleep(pause)
            attempt += 1

    async def text(self, call: Call, options: CallOptions) -> str:
        """Like `call`, for answers that are plain text."""
        return str((await self.call(call, options)).data)

    async def entries(
        self, call: Call, options: CallOptions, after: int | None
    ) -> AsyncGenerator[Entry, None]:
        """Entries of a journal as they are recorded, until the run has ended.

        A stream that breaks off is resumed after the last entry received, for as long as the server comes back.
        Errors: ApiError; ConnectionFailed when RESUMES_MAX attempts in a row brought nothing.
        """
        last, failures = None if after is None else str(after), 0
        while True:
            error: ApiError | ConnectionFailed | None = None
            try:
                async with self._opened(call, options, last) as events:
                    async for event in events:
                        failures = 0
                        if event.event == "end":
                            return
                        if event.event == "entry":
                            last = event.id or last
                            yield orjson.loads(event.data)
            except (ApiError, ConnectionFailed) as caught:
                if failures >= RESUMES_MAX or not may_retry(caught, repeatable=True):
                    raise
                error = caught
            failures += 1
            logger.debug("%s broke off: %s; resumed after entry %s", call.path, error or "no end", last)
            await asyncio.sleep(delay_s(failures, error))

    @contextlib.asynccontextmanager
    async def _opened(
        self, call: Call, options: CallOptions, last: str | None
    ) -> AsyncIterator[AsyncGenerator[ServerEvent, None]]:
        headers = [("Accept", "text/event-stream")]
        headers += [("Last-Event-ID", last)] if last is not None else []
        head = self._head(call, options, headers)
        timeout_s = _timeout_s(options, self.config.timeout_s)
        async with open_stream(
            self.transport, head, timeout_s=timeout_s, silence_s=STREAM_SILENCE_S
        ) as stream:
            response, chunks = stream
            if not 200 <= response.status < 300:
                raise problem_of(response)
            async with contextlib.aclosing(parsed(chunks)) as events:
                yield events

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def aclose(self) -> None:
        await self.transport.aclose()

    def head_of(self, method: str, path: str, headers: list[tuple[str, str]] | None = None) -> bytes:
        """Head of a request with the client's credential; for callers that send the same one many times."""
        target = f"{self.config.address.prefix}{path}"
        return http_head(method, target, [*self._base_headers, *(headers or [])])

    def _head(self, call: Call, options: CallOptions, more: Sequence[tuple[str, str]] = ()) -> bytes:
        headers = list(more)
        if call.body is not None:
            headers.append(("Content-Type", "application/json"))
        key = options.get("idempotency_key")
        if key is not None:
            if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
                raise ConfigurationError("an idempotency key has 1 to 255 printable ASCII characters")
            headers.append(("Idempotency-Key", key))
        headers.extend((options.get("extra_headers") or {}).items())
        return self.head_of(call.method, call.path + encode_query(call.query), headers)

    async def _send(self, call: Call, head: bytes, body: bytes, timeout_s: float) -> Response:
        if not logger.isEnabledFor(logging.DEBUG):
            return await self.transport.request(head, body, timeout_s)
        began = time.perf_counter()
        logger.debug("→ %s %s %s", call.method, call.path, _shown(body))
        response = await self.transport.request(head, body, timeout_s)
        took_ms = (time.perf_counter() - began) * 1000
        logger.debug("← %d in %.1f ms %s", response.status, took_ms, _shown(response.body))
        return response


def encode(value: Any) -> bytes:
    """JSON text of a request body; what JSON can't hold is refused here, with its reason."""
    try:
        try:
            return orjson.dumps(value)
        except TypeError as error:
            if "64-bit" not in str(error):
                raise
            return orjson.dumps(_with_doubles(value))
    except (TypeError, OverflowError) as error:
        raise TypeError(f"this value can't be sent as JSON: {error}") from error


def _with_doubles(value: Any) -> Any:
    """Integers that have no 64 bits as the server reads them: JSON's numbers are JavaScript's."""
    if isinstance(value, dict):
        return {name: _with_doubles(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_doubles(item) for item in value]
    wide = isinstance(value, int) and not -(2**63) <= value < 2**64
    return float(value) if wide else value


def decode(response: Response) -> Decoded:
    """The answer's JSON (or text, as the server says), or the error that it describes."""
    request_id = response.header(b"x-request-id")
    if response.status < 400:
        if not response.body:
            return Decoded(None, request_id)
        kind = response.headers.get(b"content-type", b"application/json")
        if b"json" not in kind:
            return Decoded(response.body.decode("utf-8", "replace"), request_id)
        try:
            return Decoded(orjson.loads(response.body), request_id)
        except orjson.JSONDecodeError as error:
            raise ConnectionFailed(f"the server's answer is not JSON: {error}") from error
    raise problem_of(response)


def problem_of(response: Response) -> ApiError:
    """The error of a refusing answer, also when something in between answered with no problem document."""
    try:
        problem = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict):
        start = response.body[:200].decode("utf-8", "replace").strip()
        problem = {"detail": f"the server answered {response.status}" + (f": {start}" if start else "")}
    error = api_error(response.status, problem, request_id=response.header(b"x-request-id"))
    error.retry_after_s = parse_retry_after(response.header(b"retry-after"))
    return error


def encode_query(query: Mapping[str, Any] | None) -> str:
    """`?a=b` of the values that are not None; lists repeat their name."""
    if not query:
        return ""
    pairs = [
        (name, str(item).lower() if isinstance(item, bool) else str(item))
        for name, value in query.items()
        for item in (value if isinstance(value, list | tuple) else [value])
        if item is not None
    ]
    return f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""


def segment(name: str, what: str) -> str:
    """A path segment; an empty one would reach another route, so it is refused by name."""
    if not name:
        raise ConfigurationError(f"{what} is empty")
    return quote(name, safe="")


def _shown(body: bytes) -> str:
    text = body[:300].decode("utf-8", "replace")
    return f"{text}… {len(body)} bytes" if len(body) > 300 else text


def _timeout_s(options: CallOptions, otherwise: float) -> float:
    found: object = options.get("timeout", otherwise)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise TypeError(
            f"timeout= takes seconds as a number, not {found!r}: it limits one HTTP call. How long to wait for a run "
            "is said by wait= when it starts, and by timeout_s= of runs.wait()"
        )
    return found
