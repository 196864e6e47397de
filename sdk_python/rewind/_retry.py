"""Whether and when a refused or failed request is sent again. Pure decisions; the waiting is the caller's."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from rewind._errors import ApiError, ConnectionFailed

MAX_RETRIES = 3
FIRST_DELAY_S = 0.2
DELAY_S_MAX = 8.0
RETRY_AFTER_S_MAX = 60.0
"""A server that asks for a longer pause gets no retry: the caller decides."""

_RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_NOT_BY_WAITING = frozenset({"quota_exceeded", "history_full"})


def may_retry(error: Exception, *, repeatable: bool) -> bool:
    """Whether sending the same request again can help and cannot do the work twice.

    `repeatable`: the call is idempotent or carries an Idempotency-Key.
    """
    if isinstance(error, ConnectionFailed):
        return repeatable or not error.sent
    if isinstance(error, ApiError):
        if not repeatable or error.status not in _RETRYABLE_STATUSES or error.code in _NOT_BY_WAITING:
            return False
        return error.retry_after_s is None or error.retry_after_s <= RETRY_AFTER_S_MAX
    return False


def delay_s(attempt: int, error: Exception | None, *, draw: Callable[[], float] = random.random) -> float:
    """Pause before attempt `attempt` + 1 (the first is 1): doubled, half of it drawn; Retry-After is a minimum."""
    base = min(DELAY_S_MAX, FIRST_DELAY_S * 2.0 ** min(attempt - 1, 16))
    jittered = base * (0.5 + 0.5 * draw())
    if isinstance(error, ApiError) and error.retry_after_s is not None:
        return error.retry_after_s + jittered * 0.25
    return jittered


def parse_retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Seconds of a Retry-After header: a number, or an HTTP date; None when absent or unreadable."""
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
