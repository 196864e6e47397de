"""`/v1/tasks`: plain routes, because every step of every run passes here; FastAPI would double their cost."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.body import BATCH_BODY_BYTES_MAX, read_json
from app.deps import services_of
from app.responses import json_response
from app.room import ROOM
from app.routing import caller_of, still_may
from app.schemas import Body
from app.tasks.schemas import (
    ClaimBody,
    ClaimView,
    CompleteBody,
    DeferBody,
    FailBody,
    HeartbeatBody,
    ReleaseBody,
    SettleView,
)
from app.tasks.service import Result, Tasks
from sandbox.customers import on_behalf_of
from sandbox.store.postgres.reach import Reach, limit_to
from tenancy.principals import Principal, Scope

SCOPE = Scope.TASKS_WORK
Model = TypeVar("Model", bound=Body)
Settle = Callable[[Tasks, Principal, Sequence[Any]], Awaitable[list[Result]]]


async def claim_tasks(request: Request) -> Response:
    """Lease calls of host tools, waiting up to `wait` for the first."""
    services = services_of(request)
    principal, body = await _read(request, ClaimBody)
    claims = services.tasks.claims
    wanted = await claims.wanted(principal, body, request.query_params.get("namespace"))
    tasks = await claims.claim(wanted, body, _gone(request))
    return json_response({"tasks": tasks})


def _gone(request: Request) -> Callable[[], Awaitable[bool]]:
    """Whether a claim that has waited must be given nothing: its caller has left, or may not claim any more."""

    async def gone() -> bool:
        return await request.is_disconnected() or not await still_may(request, SCOPE)

    return gone


def _settling(model: type[Any], settle: Settle, summary: str) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        services = services_of(request)
        principal, body = await _read(request, model)
        if body.claim is None:
            return json_response({"results": await settle(services.tasks, principal, body.items)})
        claims = services.tasks.claims
        wanted = await claims.wanted(principal, body.claim, request.query_params.get("namespace"))
        results: list[Result] = []

        async def settled() -> None:
            results.extend(await settle(services.tasks, principal, body.items))

        tasks = await claims.claim(wanted, body.claim, _gone(request), after=settled())
        return json_response({"results": results, "tasks": tasks})

    endpoint.__doc__ = summary
    return endpoint


async def _read(request: Request, model: type[Model]) -> tuple[Principal, Model]:
    principal = await caller_of(request, services_of(request))
    principal.require(SCOPE)
    # Leases are taken over all of a key's namespaces, by functions that are given whose: see decision 0023.
    limit_to(Reach(system=True))
    on_behalf_of(principal.organization)
    ROOM.enter()
    given = await read_json(request, limit=BATCH_BODY_BYTES_MAX)
    try:
        return principal, model.model_validate(given)
    except ValidationError as error:
        found = [{**item, "loc": ("body", *item["loc"])} for item in error.errors(include_url=False)]
        raise RequestValidationError(found) from None


complete_tasks = _settling(
    CompleteBody, Tasks.complete, "Record results; with `claim`, take the next tasks as well."
)
fail_tasks = _settling(FailBody, Tasks.fail, "Record failures, or try again as the tool's `retry` declares.")
heartbeat_tasks = _settling(HeartbeatBody, Tasks.heartbeat, "Lengthen leases; `cancel` tells a tool to stop.")
defer_tasks = _settling(DeferBody, Tasks.defer, "Keep tasks open without a lease, to be completed later.")
release_tasks = _settling(ReleaseBody, Tasks.release, "Give back tasks that were not started.")

CALLS: dict[str, tuple[Callable[[Request], Awaitable[Response]], type[Any], type[Any]]] = {
    "claim": (claim_tasks, ClaimBody, ClaimView),
    "complete": (complete_tasks, CompleteBody, SettleView),
    "fail": (fail_tasks, FailBody, SettleView),
    "heartbeat": (heartbeat_tasks, HeartbeatBody, SettleView),
    "defer": (defer_tasks, DeferBody, SettleView),
    "release": (release_tasks, ReleaseBody, SettleView),
}
"""Endpoint, body and answer of each call: what routes and the OpenAPI document are made from."""

routes = [
    Route(f"/v1/tasks/{name}", endpoint, methods=["POST"], name=f"{name}_tasks")
    for name, (endpoint, _, _) in CALLS.items()
]
