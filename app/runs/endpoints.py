"""`/v1/runs`: start, wait, read, cancel, signal."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.body import VALUE_BODY_BYTES_MAX
from app.deps import Caller, Edge, Services
from app.durations import duration_ms
from app.errors import (
    HistoryFull,
    HistoryUnavailable,
    InputRefused,
    RunActive,
    RunEnded,
    ScriptRefused,
    TooLarge,
    UnknownToolset,
    UnknownWorkflow,
    invalid,
)
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import LIMIT_DEFAULT, After, Limit, NamespaceName, decode_cursor, encode_cursor, named
from app.responses import iso, json_response
from app.routing import needs, strict_router
from app.runs.cassettes import cassette_of_run
from app.runs.filters import Q_CHARS_MAX, Q, label_filters, run_filter
from app.runs.schemas import (
    WAIT_MS_MAX,
    CancelBody,
    CassetteView,
    EntryPage,
    OutputView,
    RunPage,
    RunView,
    SealView,
    SignalBody,
    SignalView,
    StartRunBody,
    Status,
    Until,
)
from app.runs.service import checked_run, require_start
from app.runs.views import OUTPUT_BYTES_MAX, entry_json
from sandbox.journal.errors import QuotaExceeded
from sandbox.journal.ids import RunId, Seq
from sandbox.store.interface import RunRecord, StoredEntry
from tenancy.principals import NamespaceRef, Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])

ENTRIES_MAX = 1_000
ENTRIES_DEFAULT = 500
ENTRIES_AT_ONCE, ENTRIES_FIRST = 100, 10
PIECE_BYTES = 1024 * 1024
"""Entries read and sent at a time: no more, and of heavy ones about so much. A page may be large, a reader slow."""
SEQ_MAX = 2**31 - 1
Wait = Annotated[str, Query(description="Answer when the run has ended: ms or a duration, at most 60 s.")]


@router.post("", status_code=201, responses={201: {"model": RunView}, 200: {"model": RunView}})
@needs(
    Scope.RUNS_WRITE,
    body_bytes_max=VALUE_BODY_BYTES_MAX,
    refusals=(ScriptRefused, InputRefused, UnknownToolset, UnknownWorkflow, QuotaExceeded),
    idempotent=True,
    audited="run.start",
)
async def start_run(
    request: Request,
    body: StartRunBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Start a run of a script. With an Idempotency-Key, the same request again answers the same run."""
    key = idempotency_key(request)
    require_start(caller, body)
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    started = await services.runs.start(
        caller,
        within,
        body,
        key=key,
        request_sha256=await request_sha256(await request.json(), without=("wait", "until", "namespace")),
    )
    record = await services.runs.wait(within.id, started.run, body.wait, body.until)
    view = await services.runs.view(record)
    return json_response(view, headers=REPLAYED) if started.replayed else json_response(view, 201)


@router.get("", responses={200: {"model": RunPage}})
@needs(Scope.RUNS_READ, audited="run.list")
async def list_runs(
    request: Request,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    status: Annotated[list[Status] | None, Query(description="Given more than once: any of them.")] = None,
    script: Annotated[str | None, Query(description="Digest of a script.")] = None,
    workflow: Annotated[str | None, Query(max_length=64)] = None,
    toolset: Annotated[str | None, Query(description="`name` or `name@sha256:…`.")] = None,
    parent: Annotated[str | None, Query(description="Id of a run.")] = None,
    from_: Annotated[str | None, Query(alias="from", description="Started at or after.")] = None,
    to: Annotated[str | None, Query(description="Started before.")] = None,
    q: Annotated[str | None, Query(max_length=Q_CHARS_MAX, description=Q)] = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Runs of a namespace, newest first. `label.KEY=VALUE` filters by label; filters are combined by *and*."""
    within = await services.tenancy.namespace(caller, namespace)
    if caller.narrow.run is not None:
        found = await _own_run(services, caller.narrow.run, within)
        return json_response({"data": await services.runs.views(found), "next": None})
    matching = run_filter(
        statuses=status or (),
        labels=label_filters(request),
        script=script,
        workflow=workflow,
        toolset=toolset,
        parent=parent,
        from_=from_,
        to=to,
        q=q,
    )
    records = await services.runs.store.list_runs(
        within.id, matching=matching, before=_cursor(after), limit=limit + 1
    )
    page = records[:limit]
    more = encode_cursor(page[-1].run) if len(records) > limit else None
    return json_response({"data": await services.runs.views(page), "next": more})


@router.get("/{run}", responses={200: {"model": RunView}})
@needs(Scope.RUNS_READ, audited="run.read")
async def get_run(
    run: str,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    wait: Wait = "0",
    until: Until = "ended",
) -> Response:
    """The run, after waiting for it to end (or to be blocked) if asked to. Elapsed is no error."""
    wait_ms = _wait_ms(wait)
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.wait(within.id, checked_run(caller, run), wait_ms, until)
    return json_response(await services.runs.view(record))


@router.get("/{run}/output", responses={200: {"model": OutputView}})
@needs(Scope.RUNS_READ, refusals=(RunActive,), audited="run.read_output")
async def get_output(
    run: str,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    offset: Annotated[int, Query(ge=0, le=SEQ_MAX)] = 0,
    limit: Annotated[int, Query(ge=1, le=OUTPUT_BYTES_MAX)] = OUTPUT_BYTES_MAX,
) -> Response:
    """A piece of the output's JSON text, in bytes, cut at characters."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    return json_response(await services.runs.output(record, offset, limit))


@router.get("/{run}/values/{sha256}", responses={200: {"content": {"application/json": {"schema": {}}}}})
@needs(Scope.RUNS_READ, audited="run.read_value")
async def get_value(
    run: str, sha256: str, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """A value that the run's journal names by its digest: its canonical JSON text, whole."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    return Response(await services.runs.value(record, sha256), media_type="application/json")


@router.get("/{run}/seal", responses={200: {"model": SealView}})
@needs(Scope.RUNS_READ, refusals=(RunActive,))
async def get_seal(run: str, caller: Caller, services: Edge, namespace: NamespaceName = None) -> Response:
    """The digest of the whole journal of a run that has ended, and its place in the namespace's chain of seals."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    if record.end_seq is None:
        raise RunActive("The run has not ended: its journal is sealed after its end.")
    seal = await services.sealer.seal(record.namespace, record.run, record.end_seq + 1)
    return json_response(
        {
            "root": seal.root,
            "entries": seal.entries,
            "sealed_at": iso(seal.sealed_at),
            "previous": seal.previous,
        }
    )


@router.get("/{run}/journal", responses={200: {"model": EntryPage | CassetteView}})
@needs(Scope.RUNS_READ, refusals=(TooLarge, HistoryUnavailable), audited="run.read_journal")
async def get_journal(
    run: str,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    as_: Annotated[str, Query(alias="as", pattern="^(journal|cassette)$")] = "journal",
    after: Annotated[int, Query(ge=-1, le=SEQ_MAX, description="Entries after this seq.")] = -1,
    limit: Annotated[int, Query(ge=1, le=ENTRIES_MAX)] = ENTRIES_DEFAULT,
) -> Response:
    """Entries in order. `next` is the seq of the last one given, null when it is the last so far.

    `as=cassette`: the run's calls and signals, to answer a test; whole, big values included.
    """
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    if as_ == "cassette":
        return json_response(await cassette_of_run(services.runs, record))
    last = min(after + limit, record.next_seq - 1)
    pages = _pages(services, record, after, last)
    # Read before the answer begins: what is unavailable is then still a problem document.
    first: list[StoredEntry] = await anext(pages, [])
    return StreamingResponse(_journal(record, first, pages), media_type="application/json", status_code=200)


@router.post("/{run}/signals", status_code=202, responses={202: {"model": SignalView}})
@needs(
    Scope.SIGNALS_WRITE,
    body_bytes_max=VALUE_BODY_BYTES_MAX,
    refusals=(RunEnded, HistoryFull),
    idempotent=True,
    audited="run.signal",
)
async def send_signal(
    request: Request,
    run: str,
    body: SignalBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Record a signal. An `id` that the run has seen is a duplicate and changes nothing."""
    key = idempotency_key(request)
    caller.require_signal(body.name)
    target = checked_run(caller, run)
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    sha256 = await request_sha256(await request.json(), without=("namespace",))
    sent = await services.signals.send(caller, within, target, body, key=key, request_sha256=sha256)
    return json_response(
        {"id": sent.id, "duplicate": sent.duplicate}, 202, REPLAYED if sent.replayed else None
    )


@router.post("/{run}/cancel", status_code=202, responses={202: {"model": RunView}})
@needs(Scope.RUNS_WRITE, refusals=(RunEnded,), audited="run.cancel")
async def cancel_run(
    run: str,
    caller: Caller,
    services: Edge,
    body: CancelBody | None = None,
    namespace: NamespaceName = None,
) -> Response:
    """Ask the run to stop. Its pending work rejects with CancelledError; it ends as cancelled soon after."""
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    record = await services.runs.find(caller, within, run)
    record = await services.runs.cancel(caller, record, None if body is None else body.reason)
    return json_response(await services.runs.view(record), 202)


async def _pages(
    services: Services, record: RunRecord, after: int, last: int
) -> AsyncGenerator[list[StoredEntry], None]:
    count = ENTRIES_FIRST
    while after < last:
        entries = await services.runs.store.read_entries(
            record.namespace, record.run, after=Seq(after), limit=min(count, last - after)
        )
        if not entries:
            return
        mean_bytes = 1 + sum(len(entry.body) for entry in entries) // len(entries)
        count = max(1, min(ENTRIES_AT_ONCE, PIECE_BYTES // mean_bytes))
        after = entries[-1].seq
        yield entries
        del entries


async def _journal(
    record: RunRecord, first: list[StoredEntry], rest: AsyncGenerator[list[StoredEntry], None]
) -> AsyncIterator[bytes]:
    yield b'{"data":[' + b",".join(entry_json(entry) for entry in first)
    seq = first[-1].seq if first else None
    async for entries in rest:
        yield b"," + b",".join(entry_json(entry) for entry in entries)
        seq = entries[-1].seq
    more = seq is not None and seq < record.next_seq - 1
    yield b'],"next":%b}' % (str(seq).encode() if more else b"null")


async def _own_run(services: Services, run: RunId, within: NamespaceRef) -> list[RunRecord]:
    """What a token for one run sees in a list."""
    found = await services.runs.store.get_run(within.id, run)
    return [] if found is None else [found]


def _cursor(after: str | None) -> RunId | None:
    found = decode_cursor(after)
    return None if found is None else RunId(found)


def _wait_ms(text: str) -> int:
    try:
        wait = duration_ms(text)
    except ValueError as error:
        raise invalid("wait", "invalid_value", str(error)) from None
    if wait > WAIT_MS_MAX:
        raise invalid("wait", "invalid_value", "At most 60 s; ask again to wait longer.")
    return wait
