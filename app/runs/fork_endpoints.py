"""`POST /v1/runs/{run}/fork`: go on from an ended run's history, with the same script or a corrected one."""

from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import (
    EpochUnavailable,
    HistoryUnavailable,
    InputRefused,
    RunActive,
    RunQuarantined,
    ScriptRefused,
)
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import NamespaceName, named
from app.responses import json_response, spliced
from app.routing import needs, strict_router
from app.runs.fork_schemas import DryForkView, ForkBody, ForkView
from app.runs.service import checked_run
from sandbox.journal.errors import QuotaExceeded
from tenancy.principals import Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])


@router.post(
    "/{run}/fork",
    status_code=201,
    responses={201: {"model": ForkView}, 200: {"model": ForkView | DryForkView}},
)
@needs(
    Scope.RUNS_WRITE,
    refusals=(
        RunActive,
        RunQuarantined,
        HistoryUnavailable,
        EpochUnavailable,
        ScriptRefused,
        InputRefused,
        QuotaExceeded,
    ),
    idempotent=True,
    audited="run.fork",
)
async def fork_run(
    request: Request,
    run: str,
    caller: Caller,
    services: Edge,
    body: ForkBody | None = None,
    namespace: NamespaceName = None,
) -> Response:
    """Start a run that begins with what an ended one has done, as far as its script does the same.

    What is reused is not sent again. `dry_run` only says what would be reused, and stores nothing.
    """
    asked = body or ForkBody()
    key = idempotency_key(request)
    parent = checked_run(caller, run)
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    counted = {"run": parent, **asked.model_dump(exclude_unset=True)}
    sha256 = await request_sha256(counted, without=("wait", "namespace"))
    started = None
    if not asked.dry_run:
        started = await services.forks.known(caller, within.id, key, sha256)
    if started is None:
        record = await services.runs.record(within.id, parent)
        if asked.dry_run:
            plan = await services.forks.plan(caller, within, record, asked)
            return json_response({"fork": spliced(plan)})
        started = await services.forks.fork(caller, within, record, asked, key=key, request_sha256=sha256)
    forked = await services.runs.wait(within.id, started.run, asked.wait, "ended")
    view = await services.runs.view(forked)
    return json_response(view, headers=REPLAYED) if started.replayed else json_response(view, 201)
