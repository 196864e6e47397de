"""What a toolset declares of how calls are made: retries, times, limits; as it is pinned. Pure."""

from typing import Any

from app.errors import join_path
from app.toolsets.schemas import LimitedBody, RetryBody
from sandbox.journal.errors import FieldError

DURATION_MAX_MS = 30 * 24 * 3_600_000


def check_policies(body: LimitedBody, path: str, errors: list[FieldError]) -> None:
    """Times that make no sense."""
    times = {
        "timeout": body.timeout,
        "queue_timeout": body.queue_timeout,
        "rate.per": None if body.rate is None else body.rate.per,
    }
    for field, ms in times.items():
        if ms is not None and not 1 <= ms <= DURATION_MAX_MS:
            message = "This is from 1 ms to 30 days."
            errors.append(FieldError(join_path(path, field), "invalid_value", message))


def pinned_retry(retry: RetryBody | None) -> dict[str, int] | None:
    if retry is None:
        return None
    return {"attempts": retry.attempts, "backoff_ms": retry.backoff, "max_ms": retry.max}


def pinned_pace(body: LimitedBody, scope: str | None = None) -> dict[str, Any]:
    """`{"pace": …}` for the pinned tool, nothing for one without limits. `scope`: what shares them; the tool."""
    pace: dict[str, Any] = {}
    if body.queue_timeout is not None:
        pace["queue_ms"] = body.queue_timeout
    if body.concurrency is not None:
        pace["slots"] = body.concurrency.limit
        if body.concurrency.key is not None:
            pace["key"] = body.concurrency.key
    if body.rate is not None:
        pace |= {"rate_limit": body.rate.limit, "per_ms": body.rate.per}
    if not pace:
        return {}
    return {"pace": pace if scope is None else {**pace, "scope": scope}}
