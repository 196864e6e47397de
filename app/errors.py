"""Refusals of the API, and their one rendering: RFC 9457 problem+json.

ApiError (400 invalid_request)
├── InvalidJson 400 · UnsupportedMediaType 415 · TooLarge 413
├── RunEnded, RunActive, RunQuarantined, HistoryUnavailable, EpochUnavailable 409
├── ScriptRefused, InputRefused, ToolsetInvalid, UnknownToolset, UnknownWorkflow 422
├── QuotaExceeded, HistoryFull 429
└── those of tenancy/errors.py: Unauthenticated, InsufficientScope, NotFound, …
"""

import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from app.body_fields import no_such_field
from sandbox.journal.canonical import CanonicalError, path_text
from sandbox.journal.errors import ApiError, FieldError, RewindFault, Unavailable

logger = logging.getLogger(__name__)

PROBLEM_JSON = "application/problem+json"
DOCS = "https://docs.rewind.codes/errors/"
ERRORS_MAX = 50
"""Wrong places that are named in one answer."""


class InvalidJson(ApiError):
    code = "invalid_json"


class UnsupportedMediaType(ApiError):
    code = "unsupported_media_type"
    status = 415


class TooLarge(ApiError):
    code = "too_large"
    status = 413


class ApprovalSettled(ApiError):
    code = "approval_settled"
    status = 409


class RunEnded(ApiError):
    code = "run_ended"
    status = 409


class RunActive(ApiError):
    code = "run_active"
    status = 409


class RunQuarantined(ApiError):
    code = "run_quarantined"
    status = 409


class HistoryUnavailable(ApiError):
    code = "history_unavailable"
    status = 409


class EpochUnavailable(ApiError):
    code = "epoch_unavailable"
    status = 409


class ScriptRefused(ApiError):
    code = "script_refused"
    status = 422


class InputRefused(ApiError):
    code = "input_refused"
    status = 422


class ToolsetInvalid(ApiError):
    code = "toolset_invalid"
    status = 422


class UnknownToolset(ApiError):
    code = "unknown_toolset"
    status = 422


class UnknownWorkflow(ApiError):
    code = "unknown_workflow"
    status = 422


class HistoryFull(ApiError):
    code = "history_full"
    status = 429


def invalid(path: str, code: str, message: str) -> ApiError:
    """A refusal of one place in the request."""
    return ApiError(f"{path}: {message}" if path else message, errors=[FieldError(path, code, message)])


def from_canonical(error: CanonicalError, *, within: str = "") -> ApiError:
    """What is wrong with a JSON text or value, as a refusal of the request that holds it."""
    if error.error_code == "invalid_json" and not error.path:
        return InvalidJson(f"The body is no JSON: {error.message}.")
    path = join_path(within, error.path)
    return invalid(path, error.error_code, error.message)


def join_path(head: str, tail: str) -> str:
    if not head or not tail:
        return head or tail
    return head + tail if tail.startswith("[") else f"{head}.{tail}"


# -- Rendering


def problem(
    request_id: str,
    *,
    status: int,
    code: str,
    detail: str,
    errors: Sequence[FieldError] = (),
    extra: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    document: dict[str, Any] = {
        "type": DOCS + code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        "request_id": request_id,
        "errors": [
            {"path": error.path, "code": error.code, "message": error.message}
            for error in errors[:ERRORS_MAX]
        ],
        **(extra or {}),
    }
    return Response(
        orjson.dumps(document, default=str),
        status_code=status,
        media_type=PROBLEM_JSON,
        headers={"X-Request-Id": request_id, **(headers or {})},
    )


def render(error: Exception, request: Request) -> Response:
    """Answer any exception; what is nobody's refusal is logged and answered as `internal`."""
    state = request.scope.get("state", {})
    response = _rendered(error, request, str(state.get("request_id", "")))
    response.headers.update(state.get("rates", {}))
    return response


def _rendered(error: Exception, request: Request, request_id: str) -> Response:
    if isinstance(error, RequestValidationError):
        error = from_validation(error, request)
    if isinstance(error, CanonicalError):
        error = from_canonical(error)
    if isinstance(error, ApiError):
        return _refusal(error, request_id)
    if isinstance(error, Unavailable):
        wait_s = max(1, -(-error.retry_after_ms // 1000))
        logger.warning("unavailable: %s (request %s)", error.detail, request_id)
        return problem(
            request_id,
            status=error.status,
            code=error.code,
            detail=error.detail,
            headers={"Retry-After": str(wait_s)},
        )
    if isinstance(error, HTTPException):
        return _http_exception(error, request, request_id)
    fault = error if isinstance(error, RewindFault) else None
    logger.error("request %s failed", request_id, exc_info=error)
    return problem(
        request_id,
        status=500,
        code=fault.code if fault is not None else "internal",
        detail="Something went wrong here; the request id names it in our log.",
    )


def _refusal(error: ApiError, request_id: str) -> Response:
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(
        request_id,
        status=error.status,
        code=error.code,
        detail=error.detail,
        errors=error.errors,
        extra=error.extra,
        headers=headers,
    )


def _http_exception(error: HTTPException, request: Request, request_id: str) -> Response:
    if error.status_code == 404:
        detail, code = f"There is nothing at {request.url.path}.", "not_found"
    elif error.status_code == 405:
        detail, code = f"{request.method} is not possible at {request.url.path}.", "method_not_allowed"
    else:
        detail, code = str(error.detail), "invalid_request"
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    return problem(request_id, status=error.status_code, code=code, detail=detail, headers=headers)


def _allowed(request: Request) -> list[str]:
    """Methods of all routes with this path; the router itself names only those of the first."""
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= getattr(route, "methods", None) or set()
    return sorted(found)


# -- Where a body is wrong

_CODES = {
    "missing": "missing",
    "extra_forbidden": "unknown_field",
    "value_error": "invalid_value",
    "literal_error": "invalid_value",
    "string_pattern_mismatch": "invalid_value",
    "enum": "invalid_value",
}


def from_validation(error: RequestValidationError, request: Request) -> ApiError:
    """Name each wrong place by the path a caller would write: `tools[3].name`, `limit`."""
    found = []
    for item in error.errors():
        place, *rest = item["loc"]
        path = path_text(
            tuple(rest if place == "body" else rest[:1])
        )  # a parameter may repeat; its name is the path
        kind = str(item["type"])
        code = _CODES.get(kind) or ("wrong_type" if kind.endswith(("_type", "_parsing")) else "invalid_value")
        message = _message(kind, str(item["msg"]))
        if kind == "extra_forbidden" and place == "body":
            message = no_such_field(request, rest)
        if place == "body" and not rest:
            message = (
                "The body must be a JSON object." if kind != "missing" else "This call needs a JSON body."
            )
        found.append(FieldError(path, code, message))
    first = found[0] if found else FieldError("", "invalid_value", "The request is not valid.")
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    detail = f"{first.path}: {first.message}{more}" if first.path else first.message + more
    return ApiError(detail, errors=found)


def _message(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "There is no such field."
    if kind == "missing":
        return "This field is required."
    return message.removeprefix("Value error, ").replace("Input should be", "This should be")
