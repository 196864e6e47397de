"""A circuit breaker for one server: after so many failed connections, calls fail at once for a while. Pure.

Only failures to connect count; a server that answers anything is there. When the while is over one call is let
through: if it connects, all do again; if not, the next while is twice as long.
"""

from dataclasses import dataclass

FAILURES_MAX = 5
OPEN_S = 5.0
OPEN_MAX_S = 60.0


@dataclass(slots=True)
class Breaker:
    """`now_s`: of a clock that only goes forward."""

    failures: int = 0
    open_until_s: float | None = None
    pause_s: float = OPEN_S
    probing: bool = False

    def refuses_for_s(self, now_s: float) -> float | None:
        """None: go on, and report what happened; else how long calls are still refused."""
        if self.open_until_s is None:
            return None
        if now_s < self.open_until_s:
            return self.open_until_s - now_s
        if self.probing:
            return self.pause_s
        self.probing = True
        return None

    def connected(self) -> None:
        self.failures, self.open_until_s, self.pause_s, self.probing = 0, None, OPEN_S, False

    def failed(self, now_s: float) -> None:
        """There was no connection."""
        self.failures += 1
        if self.probing:
            self.pause_s = min(2 * self.pause_s, OPEN_MAX_S)
        elif self.failures < FAILURES_MAX:
            return
        self.probing = False
        self.open_until_s = now_s + self.pause_s

    def gave_up(self) -> None:
        """A call was stopped before it was known whether it connects: the next one finds out."""
        self.probing = False
