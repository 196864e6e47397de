"""`/v1/keys`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.deps import Caller, Edge
from app.errors import invalid
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.keys.schemas import (
    OVERLAP_MS_DEFAULT,
    OVERLAP_MS_MAX,
    KeyBody,
    KeyPage,
    KeyView,
    RotateKeyBody,
)
from app.paging import LIMIT_DEFAULT, After, Limit, decode_cursor, encode_cursor
from app.responses import iso, json_response, time_ms
from app.routing import needs, strict_router
from tenancy.errors import InsufficientScope
from tenancy.keys.service import NewKey
from tenancy.principals import Role, Scope

router = strict_router(prefix="/v1/keys", tags=["tenancy"])


@router.post("", status_code=201, responses={201: {"model": KeyView}, 200: {"model": KeyView}})
@needs(Scope.MANAGE, idempotent=True)
async def create_key(request: Request, body: KeyBody, caller: Caller, services: Edge) -> Response:
    """Make a key for the whole organization. The key itself is shown here and never again."""
    if caller.kind == "key" and not caller.scopes.issuperset(body.scopes):
        raise InsufficientScope("A key makes no key that may do more than itself.")
    wanted = NewKey(
        name=body.name,
        scopes=tuple(body.scopes),
        expires_at=None if body.expires_at is None else time_ms(body.expires_at),
        allow_ips=tuple(body.allow_ips),
    )
    made = await services.keys.create(
        caller.organization,
        wanted,
        key=idempotency_key(request),
        request_sha256=await request_sha256(await request.json()),
    )
    if made.secret is None:
        return json_response(_view(made.row), headers=REPLAYED)
    return json_response(_shown(made.row, made.secret), 201)


@router.get("", responses={200: {"model": KeyPage}})
@needs(Scope.MANAGE, role=Role.ADMIN)
async def list_keys(
    caller: Caller, services: Edge, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """Keys that are not revoked, newest first."""
    found = await services.keys.page(caller.organization, decode_cursor(after), limit + 1)
    page = [_view(row) for row in found[:limit]]
    return json_response(
        {"data": page, "next": encode_cursor(page[-1]["id"]) if len(found) > limit else None}
    )


@router.get("/{key}", responses={200: {"model": KeyView}})
@needs(Scope.MANAGE, role=Role.ADMIN)
async def get_key(key: str, caller: Caller, services: Edge) -> Response:
    """A key without its secret: its name, scopes, networks, and when it was last used."""
    return json_response(_view(await services.keys.get(caller.organization, key)))


@router.post("/{key}/rotate", responses={200: {"model": KeyView}})
@needs(Scope.MANAGE)
async def rotate_key(key: str, caller: Caller, services: Edge, body: RotateKeyBody | None = None) -> Response:
    """Give the key a new secret; the one before works for `overlap` more (24 h when absent)."""
    overlap_ms = OVERLAP_MS_DEFAULT if body is None else body.overlap
    if overlap_ms > OVERLAP_MS_MAX:
        raise invalid("overlap", "invalid_value", "At most 30 days.")
    made = await services.keys.rotate(caller, key, overlap_ms)
    return json_response(_shown(made.row, made.secret))


@router.delete("/{key}", status_code=204)
@needs(Scope.MANAGE)
async def revoke_key(key: str, caller: Caller, services: Edge) -> Response:
    """The key is refused from now on; elsewhere within a second."""
    await services.keys.revoke(caller.organization, key)
    return Response(status_code=204)


def _shown(row: Any, secret: str | None) -> dict[str, Any]:
    view = _view(row)
    return {"id": view.pop("id"), "key": secret, **view}


def _view(row: Any) -> dict[str, Any]:
    return {
        "id": str(row["id"]),
        "prefix": row["prefix"],
        "name": row["name"],
        "scopes": list(row["scopes"]),
        "allow_ips": list(row["allow_ips"]),
        "expires_at": iso(row["expires_at"]),
        "created_at": iso(row["created_at"]),
        "last_used_at": iso(row["last_used_at"]),
        "previous_until": iso(row["previous_until"]),
    }
