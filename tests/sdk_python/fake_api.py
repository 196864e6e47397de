"""The API's answers as a test writes them: each route's answers in turn, the last one for good."""

from collections.abc import Sequence
from typing import Any, Self

import orjson

from tests.sdk_python.http_server import LocalServer, Reply, Request

RUN_ID = "01960000-0000-7000-8000-000000000001"


def run_json(**changes: Any) -> dict[str, Any]:
    return {
        "id": RUN_ID,
        "namespace": "default",
        "status": "completed",
        "cancelling": False,
        "waiting_for": [],
        "waiting_count": 0,
        "input": {"name": "Ada"},
        "output": {"greeting": "Hello Ada"},
        "output_bytes": 24,
        "output_truncated": False,
        "output_preview": None,
        "error": None,
        "reason": None,
        "labels": {},
        "script": "sha256:00",
        "started_at": "2026-11-29T10:00:00.000Z",
        "ended_at": "2026-11-29T10:00:02.340Z",
        "usage": {"cpu_ms": 3.2, "calls": 2, "entries": 9, "activations": 4},
        **changes,
    }


def problem(status: int, code: str, detail: str, **members: Any) -> Reply:
    return Reply(status, {"title": code, "status": status, "code": code, "detail": detail, **members})


def stream(*events: tuple[str, dict[str, Any], int | None], broken: bool = False) -> Reply:
    """Server-sent events `(event, data, id)`, byte by byte at awkward places; `broken`: cut off after the last."""
    body = b"retry: 1000\n\n: a comment\n\n"
    for event, data, name in events:
        head = b"" if name is None else b"id: %d\n" % name
        body += head + b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps(data))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    pieces = [body[start : start + 37] for start in range(0, len(body), 37)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return Reply(raw=[head, *chunks, *([] if broken else [b"0\r\n\r\n"])], close=broken)


class FakeApi:
    """`api.on("GET /v1/runs", reply, ...)`; a request that no route has is a 404 that fails its test."""

    def __init__(self) -> None:
        self.server = LocalServer(self._handle)
        self._routes: dict[str, list[Reply]] = {}

    def on(self, route: str, *replies: Reply | dict[str, Any]) -> None:
        self._routes[route] = [reply if isinstance(reply, Reply) else Reply(body=reply) for reply in replies]

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def requests(self) -> Sequence[Request]:
        return self.server.requests

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.__aexit__()

    async def _handle(self, request: Request) -> Reply:
        replies = self._routes.get(f"{request.method} {request.path}")
        if not replies:
            return problem(404, "not_found", f"no answer prepared for {request.method} {request.path}")
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        reply.headers.setdefault("X-Request-Id", "req-1")
        return reply
