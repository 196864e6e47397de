"""How many requests one key, token or member may make: a sliding minute, in each api process.

What is counted are calls of `/v1`; those of host-tool workers (`/v1/tasks`) are not: a worker's pace is set by the
calls that there are. Limits of one process are exact; of several, each has its own.
"""

import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from sandbox.journal.errors import ApiError
from tenancy.principals import Principal

WINDOW_S = 60
PER_MINUTE = 6_000
"""Of one key, token or member, unless REWIND_RATE_LIMIT says otherwise; 0: no limit."""


class RateLimited(ApiError):
    code = "rate_limited"
    status = 429


class Rates:
    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self._item = RateLimitItemPerMinute(per_minute) if per_minute else None
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def take(self, principal: Principal) -> dict[str, str]:
        """Count a request; the `RateLimit` headers of its answer. RateLimited when there were too many."""
        if self._item is None:
            return {}
        who = f"{principal.kind}:{principal.id}"
        allowed = self._limiter.hit(self._item, who)
        reset, remaining = self._limiter.get_window_stats(self._item, who)
        wait_s = max(1, round(reset - time.time()))
        if not allowed:
            raise RateLimited(
                f"This {principal.kind} has made its {self._item.amount:,} requests of a minute: wait {wait_s} s.",
                retry_after_s=wait_s,
            )
        return self._headers(remaining, wait_s)

    def _headers(self, remaining: int, wait_s: int) -> dict[str, str]:
        assert self._item is not None
        return {
            "RateLimit-Policy": f'"requests";q={self._item.amount};w={WINDOW_S}',
            "RateLimit": f'"requests";r={max(0, remaining)};t={wait_s}',
        }
