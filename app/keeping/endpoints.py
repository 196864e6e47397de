"""`DELETE /v1/runs/{run}` and `POST /v1/runs/{run}/redact`."""

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import RunActive, RunQuarantined
from app.keeping.repository import Doer
from app.paging import NamespaceName, named
from app.responses import json_response
from app.routing import client_ip, needs, strict_router
from app.runs.endpoints import SEQ_MAX
from app.schemas import Answer, NamespacedBody, Text
from sandbox.journal.ids import Seq
from tenancy.principals import Principal, Scope

router = strict_router(prefix="/v1/runs", tags=["runs"])


class RedactBody(NamespacedBody):
    seq: int = Field(ge=0, le=SEQ_MAX)
    field: Text = Field(min_length=1, max_length=64, description="input, args, result, data, payload, …")
    reason: Text = Field(min_length=1, max_length=4_096)


class RedactedView(Answer):
    seq: int
    field: str
    sha256: str
    bytes: int
    redacted: bool


@router.delete("/{run}", status_code=204)
@needs(Scope.MANAGE, refusals=(RunActive, RunQuarantined))
async def delete_run(
    request: Request, run: str, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Delete an ended run: its journal and its values. Its seal stays in the namespace's chain: digests only."""
    within = await services.tenancy.namespace(caller, namespace)
    record = await services.runs.find(caller, within, run)
    await services.keeping.delete(record, _doer(request, caller))
    return Response(status_code=204)


@router.post("/{run}/redact", responses={200: {"model": RedactedView}})
@needs(Scope.MANAGE, refusals=(RunActive, RunQuarantined))
async def redact_run(
    request: Request,
    run: str,
    body: RedactBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Take one value out of an ended run's journal; its digest and size stay, and so does the run's root.

    `field`: `input`, `args`, `result`, `data` (of an error), `payload` or `output`; of a `log` its `values`.
    The same value in other entries is another redaction. A redacted run cannot be replayed or forked.
    """
    within = await services.tenancy.namespace(caller, named(body, namespace))
    record = await services.runs.find(caller, within, run)
    done = await services.keeping.redact(
        record, Seq(body.seq), body.field, _doer(request, caller, body.reason)
    )
    return json_response(
        {
            "seq": body.seq,
            "field": body.field,
            "sha256": done.sha256,
            "bytes": done.bytes,
            "redacted": True,
        }
    )


def _doer(request: Request, caller: Principal, reason: str | None = None) -> Doer:
    return Doer(caller.organization, caller.actor, client_ip(request), reason)
