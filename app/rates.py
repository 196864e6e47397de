"""How many requests one key, token or member may make: a bucket that fills over a minute, in each api process.

What is counted are calls of `/v1`; those of host-tool workers (`/v1/tasks`) are not: a worker's pace is set by the
calls that there are. Limits of one process are exact; of several, each has its own.
"""

import math
import time
from collections import OrderedDict
from dataclasses import dataclass

from sandbox.journal.errors import ApiError
from tenancy.principals import Principal

WINDOW_S = 60
PER_MINUTE = 6_000
"""Of one key, token or member, unless REWIND_RATE_LIMIT says otherwise; 0: no limit."""
CALLERS_MAX = 50_000
"""Who is remembered; whoever did not call for longest is forgotten, and has a full bucket again."""


class RateLimited(ApiError):
    code = "rate_limited"
    status = 429


@dataclass(frozen=True, slots=True)
class Taken:
    headers: dict[str, str]
    """`RateLimit` of the draft as it is now, and its three headers of before, which more clients read."""
    refusal: RateLimited | None


class Rates:
    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self._most = per_minute
        self._per_s = per_minute / WINDOW_S
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """By caller: what was in the bucket, and when."""

    def take(self, principal: Principal) -> Taken:
        """Count a request, unless there were too many."""
        if not self._most:
            return Taken({}, None)
        who, now = f"{principal.kind}:{principal.id}", time.monotonic()
        left, at = self._buckets.pop(who, (float(self._most), now))
        left = min(float(self._most), left + (now - at) * self._per_s)
        allowed = left >= 1
        left -= allowed
        self._buckets[who] = (left, now)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)
        full_s = math.ceil((self._most - left) / self._per_s)
        headers = {
            "RateLimit-Policy": f'"requests";q={self._most};w={WINDOW_S}',
            "RateLimit": f'"requests";r={math.floor(left)};t={full_s}',
            "RateLimit-Limit": str(self._most),
            "RateLimit-Remaining": str(math.floor(left)),
            "RateLimit-Reset": str(full_s),
        }
        if allowed:
            return Taken(headers, None)
        wait_s = max(1, math.ceil((1 - left) / self._per_s))
        refusal = RateLimited(
            f"This {principal.kind} has made its {self._most:,} requests of a minute: wait {wait_s} s.",
            retry_after_s=wait_s,
        )
        return Taken(headers, refusal)
