"""`POST /v1/runs/cancel`."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.paging import NamespaceName, named
from app.responses import json_response
from app.routing import client_ip, needs, strict_router
from app.runs.filters import FilterBody
from app.schemas import Answer, NamespacedBody, Text
from tenancy.errors import InsufficientScope
from tenancy.principals import Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])


class CancelManyBody(NamespacedBody):
    filter: FilterBody
    reason: Text | None = Field(default=None, max_length=4_096)


class CancelledView(Answer):
    matched: int = Field(description="Runs that go on, match, and were not cancelled before.")
    cancelled: int = Field(description="Of these, so many are cancelled by now.")
    remaining: int = Field(description="These are cancelled within seconds after the answer.")


@router.post("/cancel", status_code=202, responses={202: {"model": CancelledView}})
@needs(Scope.RUNS_WRITE)
async def cancel_runs(
    request: Request,
    body: CancelManyBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Ask every run to stop that goes on and matches the filter; `{}` matches all. Runs that are started after
    the request are not concerned. Many are cancelled in the background; the same request again counts what is left.
    """
    if caller.narrow.run is not None:
        raise InsufficientScope("This token is for one run and cannot cancel others.")
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    done = await services.bulk.cancel(
        caller, within, body.filter.to_filter(), body.reason, ip=client_ip(request)
    )
    return json_response(
        {"matched": done.matched, "cancelled": done.cancelled, "remaining": done.remaining}, 202
    )
