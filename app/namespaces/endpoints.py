"""`/v1/namespaces`: make, read, list, suspend, resume, export, delete; and the chain of seals."""

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.deps import Caller, Edge
from app.namespaces.export import Export
from app.namespaces.repository import NamespaceRow
from app.namespaces.schemas import NamespaceBody, NamespacePage, NamespaceView, SealPage
from app.paging import LIMIT_DEFAULT, After, Limit, decode_name_cursor, encode_cursor
from app.responses import iso, json_response
from app.routing import client_ip, needs, strict_router
from sandbox.store.postgres.retention import KEPT_DAYS_DEFAULT
from tenancy.errors import InsufficientScope
from tenancy.principals import Scope
from tenancy.service import NAMESPACE_NAME

router = strict_router(prefix="/v1/namespaces", tags=["tenancy"])

SEALS_MAX = 1_000
POSITION_MAX = 2**53
NDJSON = "application/x-ndjson"


@router.get("", responses={200: {"model": NamespacePage}})
@needs(Scope.MANAGE)
async def list_namespaces(
    caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """Namespaces of the organization, by name."""
    found = await services.namespaces.page(caller, decode_name_cursor(after, NAMESPACE_NAME), limit + 1)
    page = [_view(row) for row in found[:limit]]
    return json_response(
        {"data": page, "next": encode_cursor(page[-1]["name"]) if len(found) > limit else None}
    )


@router.put("/{name}", responses={200: {"model": NamespaceView}})
@needs(Scope.MANAGE)
async def put_namespace(
    request: Request, name: str, caller: Caller, services: Edge, body: NamespaceBody | None = None
) -> Response:
    """Create the namespace if there is none of this name; what is given replaces what it has."""
    given = NamespaceBody() if body is None else body
    retention = (given.retention_days,) if "retention_days" in given.model_fields_set else None
    found = await services.namespaces.put(
        caller, name, labels=given.labels, retention=retention, ip=client_ip(request)
    )
    return json_response(_view(found))


@router.get("/{name}", responses={200: {"model": NamespaceView}})
@needs(Scope.MANAGE)
async def get_namespace(name: str, caller: Caller, services: Edge) -> Response:
    """The namespace: its labels, how long it keeps ended runs, and whether it is suspended."""
    return json_response(_view(await services.namespaces.get(caller, name)))


@router.delete("/{name}", status_code=204)
@needs(Scope.MANAGE)
async def delete_namespace(request: Request, name: str, caller: Caller, services: Edge) -> Response:
    """Delete the namespace with all that is in it, at once and for good: runs that go on stop where they are,
    without a clean-up; its tokens are refused; its key is destroyed, so that no backup's journals can be read
    without that backup's keys. Its name can be used anew.
    """
    await services.namespaces.delete(caller, name, client_ip(request))
    return Response(status_code=204)


@router.post("/{name}/suspend", responses={200: {"model": NamespaceView}})
@needs(Scope.MANAGE)
async def suspend_namespace(request: Request, name: str, caller: Caller, services: Edge) -> Response:
    """Freeze the namespace: writes are refused with 403 `namespace_suspended`, its runs stay where they are and
    none of their calls is handed out. What settles meanwhile is recorded, and delivered when it is resumed.
    """
    return json_response(_view(await services.namespaces.suspend(caller, name, client_ip(request))))


@router.post("/{name}/resume", responses={200: {"model": NamespaceView}})
@needs(Scope.MANAGE)
async def resume_namespace(request: Request, name: str, caller: Caller, services: Edge) -> Response:
    """Let a suspended namespace go on where it was."""
    return json_response(_view(await services.namespaces.resume(caller, name, client_ip(request))))


@router.post("/{name}/export", responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}}})
@needs(Scope.MANAGE)
async def export_namespace(request: Request, name: str, caller: Caller, services: Edge) -> Response:
    """Everything of the namespace as lines of JSON, streamed: see docs/operations.md for the kinds of lines.

    The last line is `{"type": "end", …}`: without it the export broke off.
    """
    found = await services.namespaces.get(caller, name)
    repository = services.namespaces.repository
    await repository.note_export(caller.organization, found, caller.actor, client_ip(request))
    export = Export(
        services.runs, repository, organization=caller.organization, namespace=found, view=_view(found)
    )
    headers = {"Content-Disposition": f'attachment; filename="{found.id}.ndjson"'}
    return StreamingResponse(export.lines(), media_type=NDJSON, headers=headers)


@router.get("/{name}/seals", responses={200: {"model": SealPage}})
@needs(Scope.RUNS_READ)
async def list_seals(
    name: str,
    caller: Caller,
    services: Edge,
    after: Annotated[int, Query(ge=0, le=POSITION_MAX, description="Seals after this position.")] = 0,
    limit: Annotated[int, Query(ge=1, le=SEALS_MAX)] = SEALS_MAX,
) -> Response:
    """The chain of seals in its order, also of runs that were deleted. The link of a seal, which the next one has
    as `previous`, is the SHA-256 of the lines `rewind/1`, `previous` (empty for the first), `run`, `root`.
    """
    if caller.narrow.run is not None:
        raise InsufficientScope("This token is for one run and cannot see the seals of others.")
    found = await services.namespaces.get(caller, name)
    seals = await services.namespaces.repository.seals(found.id, after, limit + 1)
    page = [{**seal, "sealed_at": iso(seal["sealed_at"])} for seal in seals[:limit]]
    return json_response({"data": page, "next": page[-1]["position"] if len(seals) > limit else None})


def _view(row: NamespaceRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "labels": row.labels,
        "status": "active" if row.suspended_at is None else "suspended",
        "retention_days": row.retention_days or KEPT_DAYS_DEFAULT,
        "created_at": iso(row.created_at),
        "suspended_at": iso(row.suspended_at),
    }
