"""`/v1/toolsets`."""

from typing import Annotated

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import ToolsetInvalid
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import LIMIT_DEFAULT, After, Limit, decode_cursor, encode_cursor
from app.responses import json_response
from app.routing import needs, strict_router
from app.toolsets.definition import DEFINITION_BYTES_MAX
from app.toolsets.schemas import ToolsetBody, ToolsetPage, ToolsetView
from tenancy.principals import Scope

router = strict_router(prefix="/v1/toolsets", tags=["toolsets"])
Reference = Annotated[str, Path(description="`name` or `name@sha256:…`.")]


@router.post("", status_code=201, responses={201: {"model": ToolsetView}, 200: {"model": ToolsetView}})
@needs(
    Scope.MANAGE,
    body_bytes_max=2 * DEFINITION_BYTES_MAX,
    refusals=(ToolsetInvalid,),
    idempotent=True,
)
async def put_toolset(request: Request, body: ToolsetBody, caller: Caller, services: Edge) -> Response:
    """Pin tools under a name. The same again changes nothing (200); a change is a new version and the latest."""
    view, changed, replayed = await services.toolsets.put(
        caller,
        body,
        key=idempotency_key(request),
        request_sha256=request_sha256(await request.json()),
    )
    if replayed:
        return json_response(view, headers=REPLAYED)
    return json_response(view, 201 if changed else 200)


@router.get("", responses={200: {"model": ToolsetPage}})
@needs(Scope.RUNS_READ)
async def list_toolsets(
    caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """The latest versions of all toolsets, newest first."""
    found = await services.toolsets.page(caller, before=decode_cursor(after), limit=limit + 1)
    page = found[:limit]
    return json_response(
        {"data": page, "next": encode_cursor(page[-1]["id"]) if len(found) > limit else None}
    )


@router.get("/{name}", responses={200: {"model": ToolsetView}})
@needs(Scope.RUNS_READ)
async def get_toolset(name: Reference, caller: Caller, services: Edge) -> Response:
    return json_response(await services.toolsets.get(caller, name))


@router.delete("/{name}", status_code=204)
@needs(Scope.MANAGE)
async def delete_toolset(name: str, caller: Caller, services: Edge) -> Response:
    """New runs cannot use it any more; runs that have begun go on with what they were given."""
    await services.toolsets.delete(caller, name)
    return Response(status_code=204)
