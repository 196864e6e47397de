"""`GET /v1/audit`: who did what to what, from where; as pages, or all of it as NDJSON."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import orjson
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.audit.repository import AuditFilter, AuditRepository
from app.audit.schemas import AuditPage
from app.deps import Caller, Edge
from app.errors import invalid
from app.paging import LIMIT_DEFAULT, After, Limit, decode_cursor, encode_cursor, time_parameter
from app.responses import iso, json_response, spliced
from app.routing import client_ip, needs, strict_router
from sandbox.journal.ids import OrganizationId
from tenancy.audit import Act
from tenancy.principals import Role, Scope

router = strict_router(prefix="/v1/audit", tags=["tenancy"])

NDJSON = "application/x-ndjson"
EXPORTED_AT_ONCE = 1_000
TEXT_MAX = 300

Wanted = Annotated[str | None, Query(max_length=TEXT_MAX)]
Time = Annotated[str | None, Query(max_length=40)]


@router.get(
    "",
    responses={
        200: {"model": AuditPage, "content": {NDJSON: {"schema": {"type": "string"}}}},
    },
)
@needs(Scope.MANAGE, role=Role.ADMIN)
async def list_audit(
    request: Request,
    caller: Caller,
    services: Edge,
    actor: Wanted = None,
    action: Wanted = None,
    target: Wanted = None,
    from_: Annotated[str | None, Query(alias="from", max_length=40)] = None,
    to: Time = None,
    format_: Annotated[
        Literal["json", "ndjson"] | None, Query(alias="format", description="ndjson: all lines, at once.")
    ] = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """The organization's audit log, newest first. `action=key.*` and `target=run:*` stand for all of that kind.

    With `format=ndjson`, or `Accept: application/x-ndjson`, every line that fits the filter is sent.
    """
    for name, text in (("actor", actor), ("action", action), ("target", target)):
        if text is not None and "\0" in text:
            raise invalid(name, "invalid_value", "The character U+0000 is in no name.")
    wanted = AuditFilter(actor, action, target, time_parameter("from", from_), time_parameter("to", to))
    before = decode_cursor(after)
    accepted = request.headers.get("accept", "")
    if format_ == "ndjson" or (format_ is None and NDJSON in accepted):
        first = await services.audit.page(caller.organization, wanted, before=before, limit=EXPORTED_AT_ONCE)
        await services.audit.record(caller, Act("audit.export", "audit:*"), client_ip(request))
        lines = _export(services.audit, caller.organization, wanted, first)
        return StreamingResponse(
            lines, media_type=NDJSON, headers={"Content-Disposition": 'attachment; filename="audit.ndjson"'}
        )
    found = await services.audit.page(caller.organization, wanted, before=before, limit=limit + 1)
    page = [_view(row) for row in found[:limit]]
    following = encode_cursor(page[-1]["id"]) if len(found) > limit else None
    return json_response({"data": page, "next": following})


async def _export(
    audit: AuditRepository, organization: OrganizationId, wanted: AuditFilter, rows: list[Any]
) -> AsyncIterator[bytes]:
    """From the first rows on; the line that tells of this export is newer, and not among them."""
    while rows:
        yield b"".join(orjson.dumps(_view(row)) + b"\n" for row in rows)
        before = str(rows[-1]["id"])
        rows = await audit.page(organization, wanted, before=before, limit=EXPORTED_AT_ONCE)


def _view(row: Any) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "at": iso(row["at"]),
        "actor": {"kind": row["actor_kind"], "id": row["actor_id"]},
        "action": row["action"],
        "target": row["target"],
        "ip": row["ip"],
        "before": None if row["before"] is None else spliced(row["before"].encode()),
        "after": None if row["after"] is None else spliced(row["after"].encode()),
    }
