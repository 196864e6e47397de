"""What can go wrong, as one tree.

RewindError
├── ApiError               the server refused: `status`, `code`, `detail`, `errors`, `request_id`
│   ├── BadRequest           400  invalid_json invalid_request
│   ├── Unauthenticated      401
│   ├── PermissionDenied     403  insufficient_scope namespace_suspended organization_suspended
│   ├── NotFound             404
│   ├── Conflict             409  run_ended task_settled idempotency_conflict ...
│   ├── TooLarge             413
│   ├── UnsupportedMediaType 415
│   ├── Refused              422  script_refused input_refused ... with `diagnostics`
│   ├── TooManyRequests      429  quota_exceeded rate_limited history_full
│   ├── ServerError          500
│   └── Unavailable          503
├── ConnectionFailed       no answer: refused, broken, not HTTP
│   └── RequestTimeout       no answer in time
├── RunEnded               from `wait(..., raise_=True)`, with `run`
│   ├── RunFailed  RunCancelled  RunAborted  RunQuarantined
├── WebhookVerificationError  from `webhooks.verify`: not sent by Rewind, or not now
├── ToolError              raised inside a host tool: the call fails with this code
└── ConfigurationError     no credential, an address that is none, a tool that cannot be described
"""

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rewind._types import Run


class RewindError(Exception):
    """Base of everything this package raises on purpose."""


class ConfigurationError(RewindError):
    pass


class WebhookVerificationError(RewindError):
    """The message is not genuine, or not recent."""


class ConnectionFailed(RewindError):
    """No answer came. `sent` false: the server cannot have seen the request."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class RequestTimeout(ConnectionFailed):
    pass


class ApiError(RewindError):
    """A refusal, as the problem document (RFC 9457) says it; `str()` is meant to be read by a person."""

    status_of_class: ClassVar[int] = 0

    def __init__(self, status: int, problem: dict[str, Any], *, request_id: str | None = None) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code") or "unknown")
        self.detail = str(problem.get("detail") or problem.get("title") or f"the server answered {status}")
        self.errors: list[dict[str, Any]] = _dicts(problem.get("errors"))
        self.diagnostics: list[dict[str, Any]] = _dicts(problem.get("diagnostics"))
        self.request_id = request_id or problem.get("request_id")
        self.retry_after_s: float | None = None
        super().__init__(self.detail)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"{self.detail} ({self.status} {self.code})"]
        for error in [] if self.diagnostics else self.errors:  # diagnostics say the same with more
            told = f"{error.get('path') or 'body'}: {error.get('message') or error.get('code')}"
            if told not in self.detail:  # a single one is often the detail
                lines.append(f"  {told}")
        for diagnostic in self.diagnostics:
            lines.extend(f"  {line}" for line in describe_diagnostic(diagnostic))
        return lines


class BadRequest(ApiError):
    status_of_class = 400


class Unauthenticated(ApiError):
    status_of_class = 401


class PermissionDenied(ApiError):
    status_of_class = 403


class NotFound(ApiError):
    status_of_class = 404


class Conflict(ApiError):
    status_of_class = 409


class TooLarge(ApiError):
    status_of_class = 413


class UnsupportedMediaType(ApiError):
    status_of_class = 415


class Refused(ApiError):
    status_of_class = 422


class TooManyRequests(ApiError):
    """Over a quota or a rate; `quota`, `limit`, `used`, `resets_at` when the server says them."""

    status_of_class = 429

    @property
    def quota(self) -> str | None:
        return self.problem.get("quota")

    @property
    def resets_at(self) -> str | None:
        return self.problem.get("resets_at")


class ServerError(ApiError):
    status_of_class = 500


class Unavailable(ApiError):
    status_of_class = 503


_BY_STATUS: dict[int, type[ApiError]] = {
    kind.status_of_class: kind
    for kind in (
        BadRequest,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        Conflict,
        TooLarge,
        UnsupportedMediaType,
        Refused,
        TooManyRequests,
        ServerError,
        Unavailable,
    )
}


def api_error(status: int, problem: dict[str, Any], *, request_id: str | None = None) -> ApiError:
    """The error of the class that belongs to `status`; an unlisted 4xx or 5xx is its hundred's plain class."""
    kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)
    return kind(status, problem, request_id=request_id)


class RunEnded(RewindError):
    """A run did not complete, and the caller had asked for an exception. `run` is the run as it is."""

    def __init__(self, run: "Run") -> None:
        super().__init__(f"run {run.id} {run.status}{_why(run)}")
        self.run = run


class RunFailed(RunEnded):
    pass


class RunCancelled(RunEnded):
    pass


class RunAborted(RunEnded):
    pass


class RunQuarantined(RunEnded):
    pass


class ToolError(RewindError):
    """Raise it in a host tool to fail the call with a code and data that the script can look at."""

    def __init__(
        self, message: str, *, code: str | None = None, data: Any = None, retryable: bool | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = data
        self.retryable = retryable


def describe_diagnostic(diagnostic: dict[str, Any]) -> list[str]:
    """Lines of one diagnostic of a script: where, what, the code frame, and the hint."""
    place = ""
    if diagnostic.get("line") is not None:
        place = f"line {diagnostic['line']}, column {diagnostic.get('column', 1)}: "
    severity = diagnostic.get("severity") or "error"
    lines = [f"{place}{severity} {diagnostic.get('code', '')}: {diagnostic.get('message', '')}"]
    frame = diagnostic.get("frame")
    if frame:
        lines.extend(f"  {line}" for line in str(frame).rstrip("\n").split("\n"))
    if diagnostic.get("hint"):
        lines.append(f"hint: {diagnostic['hint']}")
    return lines


def _why(run: "Run") -> str:
    if run.error:
        where = f" (line {run.error['line']})" if run.error.get("line") else ""
        return f": {run.error.get('name')}: {run.error.get('message')}{where}"
    return f": {run.reason}" if run.reason else ""


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
