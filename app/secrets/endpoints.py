"""`/v1/secrets`: written and deleted here, read by nobody."""

from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from app.deps import Caller, Edge, Services
from app.paging import LIMIT_DEFAULT, After, Limit, decode_name_cursor, encode_cursor, named
from app.responses import iso, json_response
from app.routing import needs, strict_router
from app.secrets.schemas import SecretBody, SecretPage, SecretView
from sandbox.journal.ids import NamespaceId
from tenancy.principals import Principal, Role, Scope
from tenancy.repository import SecretRow
from tenancy.secrets import NAME, checked_secret_name

router = strict_router(prefix="/v1/secrets", tags=["secrets"])
Whose = Annotated[str | None, Query(description="Whose secret; absent: the organization's.", max_length=200)]
_BODY_BYTES_MAX = 512 * 1024


@router.put("/{name}", responses={200: {"model": SecretView}})
@needs(Scope.MANAGE, body_bytes_max=_BODY_BYTES_MAX, role=Role.DEVELOPER)
async def put_secret(
    name: str, body: SecretBody, caller: Caller, services: Edge, namespace: Whose = None
) -> Response:
    """Write a secret, over the one of this name if there is one. Calls use it from now on."""
    checked_secret_name(name)
    whose = named(body, namespace)
    within = await _namespace(services, caller, whose, write=True)
    row = await services.secrets.put(caller.organization, within, name, body.value)
    return json_response(_view(row, whose))


@router.get("", responses={200: {"model": SecretPage}})
@needs(Scope.MANAGE)
async def list_secrets(
    caller: Caller, services: Edge, namespace: Whose = None, limit: Limit = LIMIT_DEFAULT, after: After = None
) -> Response:
    """Names of the secrets of a namespace, or of the organization."""
    within = await _namespace(services, caller, namespace, write=False)
    found = await services.secrets.page(
        caller.organization, within, after=decode_name_cursor(after, NAME), limit=limit + 1
    )
    page = found[:limit]
    return json_response(
        {
            "data": [_view(row, namespace) for row in page],
            "next": encode_cursor(page[-1].name) if len(found) > limit else None,
        }
    )


@router.get("/{name}", responses={200: {"model": SecretView}})
@needs(Scope.MANAGE)
async def get_secret(name: str, caller: Caller, services: Edge, namespace: Whose = None) -> Response:
    """When it was written."""
    within = await _namespace(services, caller, namespace, write=False)
    return json_response(_view(await services.secrets.get(caller.organization, within, name), namespace))


@router.delete("/{name}", status_code=204)
@needs(Scope.MANAGE, role=Role.DEVELOPER)
async def delete_secret(name: str, caller: Caller, services: Edge, namespace: Whose = None) -> Response:
    """Calls that need it fail from now on with `unauthorized`."""
    within = await _namespace(services, caller, namespace, write=False)
    await services.secrets.delete(caller.organization, within, name)
    return Response(status_code=204)


async def _namespace(
    services: Services, caller: Principal, named: str | None, *, write: bool
) -> NamespaceId | None:
    if named is None:
        return None
    return (await services.tenancy.namespace(caller, named, write=write)).id


def _view(row: SecretRow, namespace: str | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "namespace": namespace,
        "created_at": iso(row.created_at),
        "updated_at": iso(row.updated_at),
    }
