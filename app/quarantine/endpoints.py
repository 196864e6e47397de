"""`POST /v1/runs/{run}/release` and `/abandon`: what an operator decides about a quarantined run."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import RunActive, RunEnded, RunQuarantined
from app.paging import NamespaceName, named
from app.responses import json_response
from app.routing import client_ip, needs, strict_router
from app.runs.schemas import RunView
from app.schemas import NamespacedBody
from tenancy.principals import Role, Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])


class DecisionBody(NamespacedBody):
    reason: str = Field(min_length=1, max_length=4_096)


@router.post("/{run}/release", responses={200: {"model": RunView}})
@needs(Scope.MANAGE, refusals=(RunActive, RunEnded, RunQuarantined))
async def release_run(
    request: Request,
    run: str,
    body: DecisionBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Try a quarantined run again: it is active, and a worker goes on with it."""
    caller.require_role(Role.ADMIN)
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    record = await services.runs.find(caller, within, run)
    await services.quarantine.release(caller, record, body.reason, client_ip(request))
    return json_response(await services.runs.view(await services.runs.record(within.id, record.run)))


@router.post("/{run}/abandon", responses={200: {"model": RunView}})
@needs(Scope.MANAGE, refusals=(RunActive, RunEnded))
async def abandon_run(
    request: Request,
    run: str,
    body: DecisionBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Give a quarantined run up: its calls are settled, then it ends as aborted."""
    caller.require_role(Role.ADMIN)
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    record = await services.runs.find(caller, within, run)
    await services.quarantine.abandon(caller, record, body.reason, client_ip(request))
    return json_response(await services.runs.view(await services.runs.record(within.id, record.run)))
