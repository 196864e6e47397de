"""`/v1/approvals` and `/v1/runs/{run}/approvals`: what waits for a person, and what people decide."""

import asyncio
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from app.approvals.repository import APPROVED, DENIED, EXPIRED, PENDING, WITHDRAWN, Approval, Filter, Place
from app.approvals.schemas import (
    ApprovalPage,
    ApprovalView,
    DecideBody,
    DecidedView,
    DecisionBody,
    DecisionItem,
    Status,
)
from app.deps import Caller, Edge, Services
from app.errors import ApprovalSettled, RunEnded, invalid
from app.paging import LIMIT_DEFAULT, After, Limit, NamespaceName, decode_place, encode_place, named
from app.responses import json_response
from app.routing import needs, strict_router
from app.runs.filters import label_filters
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.journal.ids import NamespaceId, RunId
from tenancy.errors import NamespaceSuspended
from tenancy.ids import parse_id
from tenancy.principals import Principal, Scope

router = strict_router(prefix="/v1", tags=["approvals"])

DECISIONS_AT_ONCE = 16
CALL_MAX = 2**31 - 1
_STATUSES: dict[str, tuple[int, ...]] = {
    "pending": (PENDING,),
    "approved": (APPROVED,),
    "denied": (DENIED,),
    "expired": (EXPIRED, WITHDRAWN),
}
CallNumber = Annotated[int, Path(ge=1, le=CALL_MAX)]


@router.get("/approvals", responses={200: {"model": ApprovalPage}})
@needs(Scope.RUNS_READ, audited="approval.list")
async def list_approvals(
    request: Request,
    caller: Caller,
    services: Edge,
    namespace: Annotated[
        str | None,
        Query(description="Only of this one; without it an API key sees all of them.", max_length=200),
    ] = None,
    status: Status | None = None,
    run: Annotated[str | None, Query(description="Id of a run.")] = None,
    tool: Annotated[str | None, Query(max_length=200)] = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Approvals, newest first. `label.KEY=VALUE` filters by label of the run; filters are combined by *and*."""
    found = None
    if namespace is not None or caller.namespace is not None:
        found = (await services.tenancy.namespace(caller, namespace)).id
    wanted = _filter(caller, found, run, status, tool, label_filters(request), after)
    if wanted is None:
        return json_response({"data": [], "next": None})
    views, last = await services.approvals.page(caller.organization, wanted, limit, story=False)
    return json_response({"data": views, "next": _next(last)})


@router.get("/runs/{run}/approvals", responses={200: {"model": ApprovalPage}})
@needs(Scope.RUNS_READ, audited="run.read_approvals")
async def list_run_approvals(
    run: str,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    status: Status | None = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Approvals of a run, newest first, each with what the run did before."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    wanted = _filter(caller, within.id, record.run, status, None, {}, after)
    assert wanted is not None  # the run is one that this caller may see
    views, last = await services.approvals.page(caller.organization, wanted, limit, story=True)
    return json_response({"data": views, "next": _next(last)})


@router.get("/runs/{run}/approvals/{call}", responses={200: {"model": ApprovalView}})
@needs(Scope.RUNS_READ, audited="run.read_approvals")
async def get_approval(
    run: str, call: CallNumber, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """One approval, with what the run did before."""
    found = await services.approvals.find(caller, run, call, namespace)
    return json_response(await services.approvals.view(found))


@router.post("/runs/{run}/approvals/{call}", responses={200: {"model": ApprovalView}})
@needs(Scope.APPROVALS_WRITE, refusals=(ApprovalSettled, RunEnded, NamespaceSuspended))
async def decide_approval(
    run: str,
    call: CallNumber,
    body: DecisionBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Approve or deny a call, once. A denied call throws ApprovalDeniedError in the script."""
    within = named(body, namespace)
    return json_response(await services.approvals.decide(caller, run, call, body, within))


@router.post("/approvals/decide", responses={200: {"model": DecidedView}})
@needs(Scope.APPROVALS_WRITE)
async def decide_approvals(
    body: DecideBody, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Decide up to 100 calls. Each is answered by itself: one that is refused keeps no other from being decided.

    An item may name its own namespace; the others have the one of the body or the query.
    """
    otherwise = named(body, namespace)
    at_once = asyncio.Semaphore(DECISIONS_AT_ONCE)

    async def decide(item: DecisionItem) -> dict[str, Any]:
        async with at_once:
            return await _decided(services, caller, item, otherwise)

    return json_response({"results": await asyncio.gather(*(decide(item) for item in body.items))})


async def _decided(
    services: Services, caller: Principal, item: DecisionItem, otherwise: str | None
) -> dict[str, Any]:
    answer = {"run": item.run, "call": item.call}
    try:
        view = await services.approvals.decide(caller, item.run, item.call, item, item.namespace or otherwise)
    except ApiError as refusal:
        return answer | {"ok": False, "code": refusal.code, "detail": str(refusal)}
    except Unavailable as fault:
        return answer | {"ok": False, "code": "unavailable", "detail": str(fault)}
    return answer | {"ok": True, "approval": view}


def _filter(
    caller: Principal,
    namespace: NamespaceId | None,
    run: str | None,
    status: Status | None,
    tool: str | None,
    labels: dict[str, str],
    after: str | None,
) -> Filter | None:
    """None: nothing that this caller may see is meant."""
    own = caller.narrow.run
    found = own
    if run is not None:
        if parse_id(run) is None:
            raise invalid("run", "invalid_value", "This is no id of a run.")
        found = RunId(str(parse_id(run)))
        if own not in {None, found}:
            return None
    return Filter(
        namespace=namespace,
        run=found,
        statuses=None if status is None else _STATUSES[status],
        tool=tool if tool is None or "\0" not in tool else "",
        toolset=caller.narrow.toolset,
        labels=labels or None,
        before=_place(after),
    )


def _place(after: str | None) -> Place | None:
    decoded = decode_place(after)
    if decoded is None:
        return None
    at, rest = decoded
    run, _, call = rest.partition(" ")
    found = parse_id(run)
    if found is None or not (call.isascii() and call.isdecimal() and len(call) <= 10):
        raise invalid("after", "invalid_value", "This is no `next` of a page.")
    return (at, RunId(found), min(int(call), CALL_MAX))


def _next(last: Approval | None) -> str | None:
    return None if last is None else encode_place(last.requested_at, f"{last.run} {last.call}")
