"""`/v1/toolsets`."""

from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app.deps import Caller, Edge
from app.errors import ToolsetInvalid, invalid
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import LIMIT_DEFAULT, After, Limit, decode_cursor, encode_cursor
from app.responses import json_response
from app.routing import needs, strict_router
from app.toolsets.declared import Format
from app.toolsets.definition import DEFINITION_BYTES_MAX
from app.toolsets.schemas import FoundTools, RefreshBody, RefreshView, ToolsetBody, ToolsetPage, ToolsetView
from app.toolsets.search import QUERY_CHARS_MAX, RESULTS_MAX
from sandbox.compiler.prompt import BUDGET_MIN
from sandbox.compiler.tokens import TOKENIZER
from tenancy.principals import Role, Scope

BUDGET_DEFAULT = 12_000
"""Tokens of a prompt whose reader names none: a big toolset must not fill a model's context unasked."""

router = strict_router(prefix="/v1/toolsets", tags=["toolsets"])
TOOLS_CHARS_MAX = 4_096
"""However they are written, the address stays within what HTTP parsers take."""
Reference = Annotated[str, Path(description="`name` or `name@sha256:…`.")]


@router.post("", status_code=201, responses={201: {"model": ToolsetView}, 200: {"model": ToolsetView}})
@needs(
    Scope.MANAGE,
    body_bytes_max=2 * DEFINITION_BYTES_MAX,
    refusals=(ToolsetInvalid,),
    idempotent=True,
    role=Role.DEVELOPER,
)
async def put_toolset(request: Request, body: ToolsetBody, caller: Caller, services: Edge) -> Response:
    """Pin tools under a name. The same again changes nothing (200); a change is a new version and the latest."""
    view, changed, replayed = await services.toolsets.put(
        caller,
        body,
        key=idempotency_key(request),
        request_sha256=await request_sha256(await request.json()),
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
    """The tools that are pinned: those of the latest version, or of `name@sha256:…`."""
    return json_response(await services.toolsets.get(caller, name))


@router.get(
    "/{name}/declarations",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
@needs(Scope.RUNS_READ)
async def get_declarations(
    name: Reference,
    caller: Caller,
    services: Edge,
    form: Annotated[
        Format,
        Query(
            alias="format", description="`dts`: what scripts are checked against. `prompt`: a line a tool."
        ),
    ] = "dts",
    tools: Annotated[
        str | None,
        Query(description="Only these tools or groups, separated by commas.", max_length=TOOLS_CHARS_MAX),
    ] = None,
    budget: Annotated[
        int | None,
        Query(
            ge=BUDGET_MIN,
            description=f"Tokens that a prompt may have, as {TOKENIZER} counts them; {BUDGET_DEFAULT:,} by default.",
        ),
    ] = None,
) -> Response:
    """The toolset as TypeScript. A prompt over its budget is shortened, and says how to see the rest."""
    only = None if tools is None else [tool.strip() for tool in tools.split(",") if tool.strip()]
    if budget is not None and form == "dts":
        raise invalid("budget", "invalid_value", "Only a prompt has a budget: ask for format=prompt.")
    if budget is None and form == "prompt":
        budget = BUDGET_DEFAULT
    return PlainTextResponse(
        await services.toolsets.declarations(caller, name, form, only=only, budget=budget)
    )


@router.get("/{name}/search", responses={200: {"model": FoundTools}})
@needs(Scope.RUNS_READ)
async def search_tools(
    name: Reference,
    caller: Caller,
    services: Edge,
    q: Annotated[str, Query(description="A few words.", min_length=1, max_length=QUERY_CHARS_MAX)],
    limit: Annotated[int, Query(ge=1, le=RESULTS_MAX, description="Tools in the answer.")] = 10,
) -> Response:
    """Tools that fit the words, the best first."""
    return json_response({"data": await services.toolsets.search(caller, name, q, limit)})


@router.post("/{name}/refresh", responses={200: {"model": RefreshView}})
@needs(Scope.MANAGE, refusals=(ToolsetInvalid,), role=Role.DEVELOPER, audited="toolset.refresh")
async def refresh_toolset(
    name: str, caller: Caller, services: Edge, body: RefreshBody | None = None
) -> Response:
    """Ask the toolset's servers for their tools again. Nothing moves unless it is accepted."""
    accept = False if body is None else body.accept
    return json_response(await services.toolsets.refresh(caller, name, accept=accept))


@router.delete("/{name}", status_code=204)
@needs(Scope.MANAGE, role=Role.DEVELOPER)
async def delete_toolset(name: str, caller: Caller, services: Edge) -> Response:
    """New runs cannot use it any more; runs that have begun go on with what they were given."""
    await services.toolsets.delete(caller, name)
    return Response(status_code=204)
