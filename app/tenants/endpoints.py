"""`/v1/me` and `/v1/tokens`."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.body import VALUE_BYTES_MAX
from app.deps import Caller, Edge
from app.idempotency import REPLAYED, idempotency_key, request_sha256
from app.paging import LIMIT_DEFAULT, After, Limit, NamespaceName, decode_cursor, encode_cursor, named
from app.responses import iso, json_response
from app.routing import needs, strict_router
from app.scripts.service import SCRIPT_BYTES_MAX
from app.tenants.schemas import MeView, TokenBody, TokenPage, TokenView
from sandbox.journal.entries import Limits
from sandbox.journal.ids import RunId
from tenancy.models import Token
from tenancy.principals import Narrow, Scope
from tenancy.quotas.service import TTL_MS_MAX
from tenancy.service import NewToken

router = strict_router(prefix="/v1", tags=["tenancy"])


@router.get("/me", responses={200: {"model": MeView}})
@needs(None)
async def get_me(caller: Caller) -> Response:
    """Who this secret belongs to, and what it may do."""
    limits = Limits()
    return json_response(
        {
            "principal": {
                "kind": caller.kind,
                "id": caller.id,
                "organization": caller.organization,
                "namespace": None if caller.namespace is None else caller.namespace.name,
                "narrow": caller.narrow.to_json(),
            },
            "scopes": [scope for scope in Scope if scope in caller.scopes],
            "limits": {
                "script_bytes": SCRIPT_BYTES_MAX,
                "value_bytes": VALUE_BYTES_MAX,
                "ttl_ms": TTL_MS_MAX,
                "cpu_ms_per_event": limits.cpu_ms_per_event,
                "cpu_ms_total": limits.cpu_ms_total,
                "heap_bytes": limits.heap_bytes,
                "history_entries": limits.history_entries,
                "calls_in_flight": limits.calls_in_flight,
                "log_bytes": limits.log_bytes,
            },
        }
    )


@router.post("/tokens", status_code=201, responses={201: {"model": TokenView}, 200: {"model": TokenView}})
@needs(Scope.MANAGE, idempotent=True)
async def create_token(
    request: Request, body: TokenBody, caller: Caller, services: Edge, namespace: NamespaceName = None
) -> Response:
    """Make a token for one namespace. The token itself is shown here and never again."""
    given = body.narrow
    wanted = NewToken(
        namespace=named(body, namespace),
        scopes=tuple(body.scopes),
        ttl_ms=body.ttl,
        name=body.name,
        narrow=Narrow(
            toolset=given.toolset,
            workflows=None if given.workflows is None else tuple(given.workflows),
            run=None if given.run is None else RunId(given.run),
            signals=None if given.signals is None else tuple(given.signals),
        ),
    )
    token, namespace, secret = await services.tenancy.create_token(
        caller,
        wanted,
        key=idempotency_key(request),
        request_sha256=await request_sha256(await request.json()),
    )
    view = _token_view(token, namespace)
    if secret is None:
        return json_response(view, headers=REPLAYED)
    return json_response({"id": view.pop("id"), "token": secret, **view}, 201)


@router.get("/tokens", responses={200: {"model": TokenPage}})
@needs(Scope.MANAGE)
async def list_tokens(
    caller: Caller,
    services: Edge,
    namespace: NamespaceName = None,
    limit: Limit = LIMIT_DEFAULT,
    after: After = None,
) -> Response:
    """Tokens that are not revoked, newest first."""
    found = await services.tenancy.list_tokens(
        caller, namespace=namespace, before=decode_cursor(after), limit=limit + 1
    )
    page = [_token_view(token, name) for token, name in found[:limit]]
    return json_response(
        {"data": page, "next": encode_cursor(page[-1]["id"]) if len(found) > limit else None}
    )


@router.get("/tokens/{token}", responses={200: {"model": TokenView}})
@needs(Scope.MANAGE)
async def get_token(token: str, caller: Caller, services: Edge) -> Response:
    """A token without its secret: its scopes, what it is narrowed to, and when it was last used."""
    return json_response(_token_view(*await services.tenancy.get_token(caller, token)))


@router.delete("/tokens/{token}", status_code=204)
@needs(Scope.MANAGE)
async def revoke_token(token: str, caller: Caller, services: Edge) -> Response:
    """The token is refused from now on; elsewhere within a second."""
    await services.tenancy.revoke_token(caller, token)
    return Response(status_code=204)


def _token_view(token: Token, namespace: str) -> dict[str, Any]:
    return {
        "id": str(token.id),
        "prefix": token.prefix,
        "name": token.name,
        "namespace": namespace,
        "scopes": token.scopes,
        "narrow": token.narrow,
        "expires_at": iso(token.expires_at),
        "created_at": iso(token.created_at),
        "last_used_at": iso(token.last_used_at),
    }
