"""`/v1/scripts`: check a script before any run exists, and read those that are known."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.body import VALUE_BODY_BYTES_MAX
from app.deps import Caller, Edge
from app.errors import UnknownToolset
from app.paging import LIMIT_DEFAULT, After, Limit, NamespaceName, decode_place, encode_place, named
from app.responses import json_response
from app.routing import needs, strict_router
from app.scripts.input import input_errors
from app.scripts.schemas import CheckScriptBody, CheckView, ScriptPage, ScriptView
from app.scripts.service import ScriptReport, script_view
from tenancy.principals import Scope

router = strict_router(prefix="/v1/scripts", tags=["scripts"])


@router.post("/check", responses={200: {"model": CheckView}})
@needs(Scope.SCRIPTS_CHECK, body_bytes_max=VALUE_BODY_BYTES_MAX, refusals=(UnknownToolset,))
async def check_script(
    request: Request,
    body: CheckScriptBody,
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
) -> Response:
    """Check a script's syntax and types against the tools of a toolset, and an input against its main.

    A script without errors is kept: it can be named by its digest afterwards.
    """
    caller.require_toolset((body.toolset or "").partition("@")[0])
    within = await services.tenancy.namespace(caller, named(body, namespace), write=True)
    toolset = None
    if body.toolset is not None:
        toolset = await services.toolsets.resolve(caller.organization, body.toolset)
    report = await services.scripts.check(caller.organization, within.id, body.script, toolset)
    given = "input" in await request.json()
    if given:
        await services.runs.values.canonical(body.input, "input")
    diagnostics = [*report.diagnostics, *(_of_input(report, body.input) if given and report.ok else ())]
    return json_response(
        {
            "ok": all(found["severity"] != "error" for found in diagnostics),
            "digest": report.digest,
            "input_type": report.input_type,
            "output_type": report.output_type,
            "diagnostics": diagnostics,
        }
    )


@router.get("", responses={200: {"model": ScriptPage}})
@needs(Scope.RUNS_READ)
async def list_scripts(
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Scripts of a namespace, those that came last first."""
    within = await services.tenancy.namespace(caller, namespace)
    found = await services.scripts.page(within.id, before=decode_place(after), limit=limit + 1)
    page = found[:limit]
    more = encode_place(page[-1]["created_at"], page[-1]["digest"]) if len(found) > limit else None
    return json_response({"data": [script_view(row) for row in page], "next": more})


@router.get("/{digest}", responses={200: {"model": ScriptView}})
@needs(Scope.RUNS_READ, audited="script.read")
async def get_script(
    digest: str, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """A script's source, the toolset that it was checked against last, and the types of its main."""
    within = await services.tenancy.namespace(caller, namespace)
    return json_response(await services.scripts.get(within.id, digest))


def _of_input(report: ScriptReport, value: Any) -> list[dict[str, Any]]:
    return [
        {
            "severity": "error",
            "code": "input_refused",
            "message": f"{error.path}: {error.message}",
            "line": 1,
            "column": 1,
            "end_line": 1,
            "end_column": 1,
            "frame": "",
            "hint": f"main takes {report.input_type}",
        }
        for error in input_errors(report.input_schema, value)
    ]
