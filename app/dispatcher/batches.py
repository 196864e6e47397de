"""Answers in batches, which version 2025-03-26 of MCP has and the client library does not read.

That version lets a server answer with an array of messages, in a body or in an event of a stream. They are told to
the library one by one, as events of a stream. Later versions have no batches: an array is then no answer.
"""

from collections.abc import AsyncIterator, Iterable

import httpx2
import orjson

VERSION = "2025-03-26"
VERSION_HEADER = "mcp-protocol-version"
STREAM = "text/event-stream"


def may_come_in_batches(request: httpx2.Request) -> bool:
    return bool(request.headers.get(VERSION_HEADER) == VERSION)


def unbatched_body(body: bytes) -> bytes | None:
    """The stream of events that says the same as this body; None for a body that is no batch."""
    if not body.lstrip().startswith(b"["):
        return None
    return b"".join(_events(body.decode(errors="replace"), [None]))


class UnbatchedStream(httpx2.AsyncByteStream):
    """The events of a stream, those that hold a batch taken apart. An event over `bytes_max` ends it (SSEError)."""

    def __init__(self, response: httpx2.Response, bytes_max: int) -> None:
        self._response = response
        self._source = httpx2.EventSource(response, max_event_size=bytes_max)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for event in self._source:
            head = [f"event: {event.event}", f"id: {event.id}" if event.id else None]
            head.append(None if event.retry is None else f"retry: {event.retry}")
            for part in _events(event.data, head):
                yield part

    async def aclose(self) -> None:
        await self._response.aclose()


def _events(data: str, head: Iterable[str | None]) -> list[bytes]:
    """One event, or one for each message of a batch; the last has the id: a stream is resumed after the whole batch."""
    messages = [data]
    if data.lstrip().startswith("["):
        try:
            messages = [orjson.dumps(message).decode() for message in orjson.loads(data)] or [data]
        except orjson.JSONDecodeError:
            messages = [data]
    fields = [field for field in head if field is not None]
    made = []
    for number, message in enumerate(messages, start=1):
        lines = fields if number == len(messages) else []
        lines = [*lines, *(f"data: {line}" for line in message.split("\n"))]
        made.append(("\n".join(lines) + "\n\n").encode())
    return made
