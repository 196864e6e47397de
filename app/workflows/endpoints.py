"""`/v1/workflows`."""

from typing import Annotated

from fastapi import Path
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import ScriptRefused, TooLarge, UnknownToolset
from app.paging import (
    LIMIT_DEFAULT,
    After,
    Limit,
    NamespaceName,
    decode_cursor,
    decode_place,
    encode_cursor,
    encode_place,
    named,
)
from app.responses import json_response
from app.routing import needs, strict_router
from app.scripts.service import DIGEST
from app.workflows.schemas import (
    WorkflowBody,
    WorkflowPage,
    WorkflowSourceView,
    WorkflowVersionPage,
    WorkflowView,
)
from app.workflows.service import version_view, workflow_view
from tenancy.principals import Role, Scope

router = strict_router(prefix="/v1/workflows", tags=["workflows"])
Reference = Annotated[str, Path(description="`name` or `name@sha256:…`.")]


@router.put("/{workflow}", responses={200: {"model": WorkflowView}})
@needs(Scope.MANAGE, refusals=(ScriptRefused, UnknownToolset, TooLarge), role=Role.DEVELOPER)
async def put_workflow(
    workflow: str, body: WorkflowBody, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Register a script under a name: checked, with its toolset as it is now. New runs get it; others stay."""
    within = None
    whose = named(body, namespace)
    if whose is not None and DIGEST.fullmatch(body.script):
        within = (await services.tenancy.namespace(caller, whose)).id
    return json_response(workflow_view(await services.workflows.put(caller, workflow, body, within)))


@router.get("", responses={200: {"model": WorkflowPage}})
@needs(Scope.RUNS_READ)
async def list_workflows(
    caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """The latest versions of all workflows, the newest workflow first."""
    found = await services.workflows.page(caller, before=decode_cursor(after), limit=limit + 1)
    page = found[:limit]
    more = encode_cursor(page[-1].id) if len(found) > limit else None
    return json_response({"data": [workflow_view(one) for one in page], "next": more})


@router.get("/{workflow}", responses={200: {"model": WorkflowSourceView}})
@needs(Scope.RUNS_READ)
async def get_workflow(workflow: Reference, caller: Caller, services: Edge) -> Response:
    """The latest version, or the one that is named, with its source."""
    found = await services.workflows.get(caller, workflow)
    return json_response({**workflow_view(found), "source": found.version.source})


@router.get("/{workflow}/versions", responses={200: {"model": WorkflowVersionPage}})
@needs(Scope.RUNS_READ)
async def list_workflow_versions(
    workflow: str, caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """All versions, those that came last first."""
    found = await services.workflows.versions(caller, workflow, before=decode_place(after), limit=limit + 1)
    page = found[:limit]
    more = encode_place(page[-1].created_at, page[-1].digest) if len(found) > limit else None
    return json_response({"data": [version_view(one) for one in page], "next": more})


@router.delete("/{workflow}", status_code=204)
@needs(Scope.MANAGE, role=Role.DEVELOPER)
async def delete_workflow(workflow: str, caller: Caller, services: Edge) -> Response:
    """It cannot be started any more; runs that live, and toolsets that are pinned to it, go on with what they have."""
    await services.workflows.delete(caller, workflow)
    return Response(status_code=204)
