"""The OpenAPI 3.1 document: what FastAPI finds, plus what holds for every call."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import ConfigDict, Field
from pydantic.json_schema import models_json_schema

from app.errors import PROBLEM_JSON, InvalidJson, TooLarge, UnsupportedMediaType
from app.rates import RateLimited
from app.routing import Needs, StrictRoute, needs_of
from app.schemas import Answer
from app.scripts.schemas import DiagnosticView
from app.tasks.endpoints import CALLS
from app.tasks.endpoints import SCOPE as TASKS_SCOPE
from sandbox.journal.errors import ApiError, Unavailable
from tenancy.errors import (
    InsufficientScope,
    NamespaceSuspended,
    NotFound,
    OrganizationSuspended,
    Unauthenticated,
)

DESCRIPTION = "Durable, deterministic runs of TypeScript scripts. Errors are problem documents (RFC 9457)."
_REF = "#/components/schemas/{model}"
_EVERYWHERE: tuple[type[ApiError], ...] = (
    ApiError,
    Unauthenticated,
    InsufficientScope,
    OrganizationSuspended,
    NamespaceSuspended,
    NotFound,
)
_WITH_BODY: tuple[type[ApiError], ...] = (InvalidJson, TooLarge, UnsupportedMediaType)
_REQUEST_ID = {
    "X-Request-Id": {"description": "Names this request in our log.", "schema": {"type": "string"}}
}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key with the same body is answered with the same object, for at least 30 days.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


class ProblemError(Answer):
    path: str = Field(description="Of the wrong place, like `items[3].name`; empty: the whole body.")
    code: str
    message: str


class Problem(Answer):
    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str
    errors: list[ProblemError]
    diagnostics: list[DiagnosticView] | None = Field(default=None, description="Of `script_refused`.")
    input_type: str | None = Field(default=None, description="Of `input_refused`: what the input must be.")
    quota: str | None = Field(default=None, description="Of `quota_exceeded`, with the three after it.")
    limit: int | None = None
    used: int | None = None
    resets_at: str | None = None


def openapi_of(app: FastAPI, version: str) -> Callable[[], dict[str, Any]]:
    """Return what `app.openapi` becomes; the document is made once, when it is asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, version)
        return app.openapi_schema

    return document


def _document(app: FastAPI, version: str) -> dict[str, Any]:
    made = get_openapi(
        title="Rewind", version=version, description=DESCRIPTION, routes=app.routes, openapi_version="3.1.0"
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    made["components"]["securitySchemes"] = {
        "bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key (rwk_…) or a token (rwt_…).",
        }
    }
    models = [(Problem, "validation")]
    models += [(model, "validation") for _, *pair in CALLS.values() for model in pair]
    _, definitions = models_json_schema(models, ref_template=_REF)  # type: ignore[arg-type]
    schemas.update(definitions["$defs"])
    for route in app.routes:
        if not isinstance(route, StrictRoute):
            continue
        for method in route.methods or ():
            operation = made["paths"][route.path_format][method.lower()]
            _complete(operation, needs_of(route.endpoint), more=(RateLimited,))
    for name, (endpoint, body, answer) in CALLS.items():
        made["paths"][f"/v1/tasks/{name}"] = {
            "post": _task_operation(name, str(endpoint.__doc__), body.__name__, answer.__name__)
        }
    return made


def _task_operation(name: str, summary: str, body: str, answer: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": ["tasks"],
        "operationId": f"{name}_tasks",
        "summary": summary,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": _REF.format(model=body)}}},
        },
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": {"$ref": _REF.format(model=answer)}}},
            }
        },
    }
    _complete(operation, Needs(TASKS_SCOPE))
    return operation


def _complete(operation: dict[str, Any], wanted: Needs, more: tuple[type[ApiError], ...] = ()) -> None:
    """Add what every call has: its scope, its credentials, its refusals, its headers."""
    operation["security"] = [{"bearer": []}]
    operation["x-required-scope"] = wanted.scope
    responses = operation["responses"]
    responses.pop("422", None)
    refusals = _EVERYWHERE + (_WITH_BODY if "requestBody" in operation else ()) + wanted.refusals + more
    codes: dict[int, list[str]] = {}
    for refusal in refusals:
        codes.setdefault(refusal.status, []).append(refusal.code)
    codes[500] = ["internal"]
    codes[Unavailable.status] = [Unavailable.code]
    for status, names in sorted(codes.items()):
        responses[str(status)] = {
            "description": f"{HTTPStatus(status).phrase}: {', '.join(f'`{name}`' for name in names)}",
            "content": {PROBLEM_JSON: {"schema": {"$ref": _REF.format(model="Problem")}}},
        }
    for response in responses.values():
        response["headers"] = _REQUEST_ID
    if wanted.idempotent:
        operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
