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
from app.deps import Services, services_of
from app.errors import InvalidJson
from app.room import ROOM
from sandbox.customers import on_behalf_of
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.journal.ids import Json
from sandbox.store.postgres.reach import Reach, as_system, limit_to
from tenancy.audit import Act
from tenancy.errors import IdempotencyConflict, InsufficientScope
from tenancy.principals import Principal, Role, Scope

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_ATTRIBUTE = "__rewind_needs__"
SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Needs:
    """What a call takes, and the refusals of its own. `scope` None: any principal."""

    scope: Scope | None
    body_bytes_max: int = BODY_BYTES_MAX
    refusals: tuple[type[ApiError], ...] = ()
    idempotent: bool = False
    role: Role | None = None
    """Of members, where it is not `role_for`."""
    audited: str | None = None
    """The action that stands in the audit log when a person does this, or a key that changes what it manages."""

    def audits(self, principal: Principal, method: str) -> bool:
        """Machines' own traffic stands in journals; an operator's reads are recorded before they are answered."""
        changes = self.scope is Scope.MANAGE and method not in SAFE_METHODS
        return principal.kind == "member" or (principal.kind == "key" and changes)

    def role_for(self, method: str) -> Role:
        """What a member must be: without `role`, reading what takes `manage` is for all, changing it for admins."""
        if self.role is not None:
            return self.role
        if self.scope is Scope.MANAGE:
            return Role.VIEWER if method in SAFE_METHODS else Role.ADMIN
        return Role.VIEWER if self.scope in {None, Scope.RUNS_READ} else Role.DEVELOPER


def needs(
    scope: Scope | None,
    *,
    body_bytes_max: int = BODY_BYTES_MAX,
    refusals: tuple[type[ApiError], ...] = (),
    idempotent: bool = False,
    role: Role | None = None,
    audited: str | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Mark an endpoint. `idempotent`: it takes an Idempotency-Key. `role`: which one members need. `audited`: what a
    person's call is in the audit log, for reads of values and for acts that no trigger of the database sees.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        conflicts = (IdempotencyConflict,) if idempotent else ()
        marked = Needs(scope, body_bytes_max, refusals + conflicts, idempotent, role, audited)
        setattr(endpoint, _ATTRIBUTE, marked)
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
            principal = await caller_of(request, services)
            if principal.role is not None:
                principal.require_role(wanted.role_for(request.method))
            elif wanted.scope is not None:
                principal.require(wanted.scope)
            request.state.principal = principal
            rates = services.rates.take(principal)
            request.state.rates = rates.headers
            if rates.refusal is not None:
                raise rates.refusal
            limit_to(reach_of(principal, client_ip(request)))
            on_behalf_of(principal.organization)
            ROOM.enter()
            if principal.kind == "operator":
                await _operator_looks(principal, wanted, request, services)
            if field is not None:
                raw = await read_body(request, wanted.body_bytes_max)
                request._body = raw
                if raw.strip():
                    require_json(request)
                    request._json = await parse_body(raw)
                elif not optional:
                    require_json(request)
                    raise InvalidJson("This call needs a JSON body; it is empty.")
                else:
                    request._body = b""
            response = await validate_and_call(request)
            response.headers.update(rates.headers)
            if wanted.audited and wanted.audits(principal, request.method) and response.status_code < 400:
                await services.audit.record(principal, _act(wanted.audited, request), client_ip(request))
            return response

        return handle


async def _operator_looks(principal: Principal, wanted: Needs, request: Request, services: Services) -> None:
    """Whatever an operator asks for is in the customer's audit log before it is answered; changes are refused."""
    what = _act(wanted.audited or "operator.read", request)
    asked: dict[str, Json] = {"method": request.method, "path": request.url.path}
    act = Act(what.action, what.target if wanted.audited else f"path:{request.url.path}", None, asked)
    await services.audit.record(principal, act, client_ip(request))
    if request.method not in SAFE_METHODS:
        raise InsufficientScope("An operator who looks into an organization reads only.")


def _act(action: str, request: Request) -> Act:
    """What a person did, on what the path names; nothing of a streamed answer has been sent yet."""
    word = action.partition(".")[0]
    named = request.path_params.get(word, "*")
    others = {name: value for name, value in request.path_params.items() if name != word}
    return Act(action, f"{word}:{named}", None, others or None)


async def caller_of(request: Request, services: Services) -> Principal:
    """Who calls: by the Authorization header; without one, a member by the cookie of a session.

    Errors: Unauthenticated and others of the Authenticator; NotFound for an organization of others; ApiError
    for a write without the session's CSRF token.
    """
    authorization = request.headers.get("authorization")
    if authorization is None:
        with as_system():
            session = await services.pages.site.session(request)
            if session is not None:
                if request.method not in SAFE_METHODS:
                    session.require_csrf(request.headers.get("x-csrf-token"))
                return await services.pages.members.principal(
                    session, request.query_params.get("organization")
                )
    return await services.authenticator.authenticate(authorization, client_ip(request))


async def still_may(request: Request, scope: Scope) -> bool:
    """Whether who sent this request could send it now: what goes on for long ends with the right to it.

    While the database does not answer, the right is believed to last: nothing else goes on either.
    """
    try:
        principal = await caller_of(request, services_of(request))
        if principal.role is None:
            principal.require(scope)
    except Unavailable:
        return True
    except ApiError:
        return False
    return True


def reach_of(principal: Principal, ip: str) -> Reach:
    """What the caller's statements may reach, and what the audit log says of who it was."""
    return Reach(
        organization=principal.organization,
        namespace=None if principal.namespace is None else principal.namespace.id,
        confined=principal.kind == "token",
        actor=principal.actor,
        ip=ip,
    )


def client_ip(request: Request) -> str:
    return "" if request.client is None else request.client.host


def strict_router(**options: Any) -> APIRouter:
    return APIRouter(route_class=StrictRoute, **options)
