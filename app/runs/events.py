"""`GET /v1/runs/{id}/events`: the journal as server-sent events, while it is written."""

import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.deps import Caller, Edge, Services
from app.errors import invalid
from app.paging import NamespaceName
from app.routing import needs, still_may, strict_router
from app.runs.endpoints import SEQ_MAX
from app.runs.live import Ended, Quiet
from app.runs.views import entry_json
from sandbox.journal.ids import Seq
from sandbox.store.interface import FROM_START, RunRecord
from tenancy.principals import Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])

LAST_EVENT_ID = "last-event-id"
_OPENING = b"retry: 1000\n"
"""Of the first block: a block of its own would be an event without data to simple readers."""
_COMMENT = b": \n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_ANSWER = {
    "description": "`event: entry` with `id: <seq>` and the entry as `data`; at the end of the run `event: end` "
    "with `{status}`. A comment at least every 15 s.",
    "content": {
        "text/event-stream": {
            "schema": {
                "type": "object",
                "description": "One event; `data` is JSON.",
                "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
                "required": ["event", "data"],
            }
        }
    },
}


@router.get("/{run}/events", response_class=StreamingResponse, responses={200: _ANSWER})
@needs(Scope.RUNS_READ, audited="run.read_journal")
async def follow_run(
    request: Request, run: str, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Every entry once and in order, those recorded already first. `Last-Event-ID` resumes after that seq."""
    after = _resumed_after(request)
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    return StreamingResponse(
        _stream(request, services, record, after), media_type="text/event-stream", headers=_HEADERS
    )


async def _stream(
    request: Request, services: Services, record: RunRecord, after: Seq
) -> AsyncIterator[bytes]:
    """Ends when its reader's right to it does: the reader asks again, and is told why."""
    yield _OPENING
    async with contextlib.aclosing(services.live.follow(record.namespace, record.run, after)) as following:
        async for news in following:
            if not await still_may(request, Scope.RUNS_READ):
                return
            if isinstance(news, Quiet):
                yield _COMMENT
            elif isinstance(news, Ended):
                status = "deleted" if news.status is None else news.status.name.lower()
                yield b'event: end\ndata: {"status":"%b"}\n\n' % status.encode()
            else:
                yield b"".join(
                    b"id: %d\nevent: entry\ndata: %b\n\n" % (entry.seq, entry_json(entry)) for entry in news
                )


def _resumed_after(request: Request) -> Seq:
    text = request.headers.get(LAST_EVENT_ID)
    if text is None or not text.strip():
        return FROM_START
    if not text.isascii() or not text.isdecimal() or int(text) > SEQ_MAX:
        raise invalid("Last-Event-ID", "invalid_value", "This is the seq of the last entry received.")
    return Seq(int(text))
