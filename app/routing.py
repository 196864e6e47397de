"""Routes of `/v1`: who calls is known before anything is read, and the body is strict JSON.

Every endpoint says with `@needs` which scope it takes; an endpoint that does not say so cannot be routed.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from app.body import BODY_BYTES_MAX, parse_body, read_body, require_json
from app.deps import services_of
from app.errors import InvalidJson
from sandbox.journal.errors import ApiError
from tenancy.errors import IdempotencyConflict
from tenancy.principals import Scope

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_ATTRIBUTE = "__rewind_needs__"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a call takes, and the refusals of its own. `scope` None: any principal."""

    scope: Scope | None
    body_bytes_max: int = BODY_BYTES_MAX
    refusals: tuple[type[ApiError], ...] = ()
    idempotent: bool = False


def needs(
    scope: Scope | None,
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    refusals: tuple[type[ApiError], ...] = (),
    idempotent: bool = False,
) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint. `idempotent`: it takes an Idempotency-Key."""

    def mark(endpoint: Endpoint) -> Endpoint:
        conflicts = (IdempotencyConflict,) if idempotent else ()
        setattr(endpoint, _ATTRIBUTE, Needs(scope, body_bytes_max, refusals + conflicts, idempotent))
        return endpoint

    return mark


def needs_of(endpoint: Callable[..., Any]) -> Needs:
    found = getattr(endpoint, _ATTRIBUTE, None)
    if not isinstance(found, Needs):
        raise TypeError(f"{endpoint.__name__} does not say with @needs which scope it takes")
    return found


class StrictRoute(APIRoute):
    """Authenticates, checks the scope, then reads the body, in this order."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        wanted = needs_of(self.endpoint)
        validate_and_call = super().get_route_handler()
        field = self.body_field
        optional = field is not None and not field.field_info.is_required()

        async def handle(request: Request) -> Response:
            services = services_of(request)
            principal = await services.authenticator.authenticate(request.headers.get("authorization"))
            if wanted.scope is not None:
                principal.require(wanted.scope)
            request.state.principal = principal
            if field is not None:
                raw = await read_body(request, wanted.body_bytes_max)
                request._body = raw
                if raw.strip():
                    require_json(request)
                    request._json = parse_body(raw)
                elif not optional:
                    require_json(request)
                    raise InvalidJson("This call needs a JSON body; it is empty.")
                else:
                    request._body = b""
            return await validate_and_call(request)

        return handle


def strict_router(**options: Any) -> APIRouter:
    return APIRouter(route_class=StrictRoute, **options)
