"""The `http` of a toolset: what is declared, and the tool `http.request` that is pinned of it. Pure."""

from typing import Any

from app.dispatcher.endpoints import header_problem
from app.dispatcher.hosts import HostPattern
from app.dispatcher.http_request import METHODS, OURS, HttpSpec
from app.errors import join_path
from app.toolsets.policies import pinned_pace, pinned_retry
from app.toolsets.schemas import HttpBody, SecretRef
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Json
from tenancy.secrets import NAME as SECRET_NAME

NAME = "http.request"
SERVER = "http"
"""Its group, which no server can have."""
TIMEOUT_MS = 300_000
_TEXTS = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}}  # fmt: skip
INPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {"type": "string", "enum": sorted(METHODS)},
        "url": {"type": "string"},
        "headers": _TEXTS,
        "query": _TEXTS,
        "json": {},
        "text": {"type": "string"},
        "base64": {"type": "string"},
    },
    "required": ["url"],
    "additionalProperties": False,
}
OUTPUT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "integer"},
        "ok": {"type": "boolean"},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "json": {},
        "text": {"type": "string"},
        "base64": {"type": "string"},
    },
    "required": ["status", "ok", "headers", "json", "text"],
}


def check_http(body: HttpBody, errors: list[FieldError]) -> None:
    """Say everything that is wrong with the hosts and headers."""

    def wrong(path: str, code: str, message: str) -> None:
        errors.append(FieldError(path, code, f"{message}."))

    for index, pattern in enumerate(body.allow):
        _check_pattern(pattern, f"http.allow[{index}]", errors)
    for pattern, named in body.headers.items():
        at = join_path("http.headers", pattern[:80])
        _check_pattern(pattern, at, errors)
        for name, value in named.items():
            given: Json = {"secret": value.secret} if isinstance(value, SecretRef) else value
            problem = header_problem(name, given, reserved=OURS)
            if isinstance(value, SecretRef) and SECRET_NAME.fullmatch(value.secret) is None:
                problem = f"{value.secret[:80]!r} cannot be the name of a secret"
            if problem is not None:
                wrong(join_path(at, name[:80]), "invalid_header", problem)


def _check_pattern(pattern: str, path: str, errors: list[FieldError]) -> None:
    try:
        HostPattern.parse(pattern)
    except ValueError as error:
        errors.append(FieldError(path, "invalid_host", f"{error}."))


def http_spec(body: HttpBody) -> HttpSpec:
    headers: dict[str, dict[str, Json]] = {
        pattern: {
            name: {"secret": value.secret} if isinstance(value, SecretRef) else value
            for name, value in named.items()
        }
        for pattern, named in body.headers.items()
    }
    return HttpSpec(tuple(sorted(set(body.allow))), headers)


def pinned_http(body: HttpBody, approval: Json) -> dict[str, Any]:
    """The tool. Whether a call may be repeated depends on its method, so it stands with each call."""
    hosts = ", ".join(sorted(set(body.allow))[:20])
    return {
        "name": NAME,
        "original": NAME,
        "kind": "http",
        "server": SERVER,
        "description": f"Sends an HTTP request and returns the answer, whatever its status. Hosts: {hosts}",
        "input_schema": INPUT_SCHEMA,
        "output_schema": OUTPUT_SCHEMA,
        "approval": approval,
        "idempotent": False,
        "timeout_ms": TIMEOUT_MS if body.timeout is None else body.timeout,
        "retry": pinned_retry(body.retry),
        **pinned_pace(body),
    }
