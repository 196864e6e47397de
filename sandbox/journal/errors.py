"""The base errors of the server, by whose fault it is.

RewindFault
├── ApiError       the caller's: 4xx, the run is unchanged
├── PlatformFault  ours: the run is quarantined, never failed
│   ├── Divergence       a replay did not match its journal
│   └── ImpossibleEntry  the journal holds what no run can produce
└── Unavailable    a dependency's: retried, 503 to a caller

A script's own failure is no exception here: it is a value in the journal.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from sandbox.journal.ids import Json, Seq


class RewindFault(Exception):
    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong place in a request: `path` is like `items[3].name`, empty for the whole body."""

    path: str
    code: str
    message: str


@dataclass
class ApiError(RewindFault):
    """A refusal that the caller can act on; `detail` says what to do next."""

    detail: str
    errors: list[FieldError] = field(default_factory=list)
    extra: dict[str, Json] = field(default_factory=dict)
    """Further members of the problem document, such as `diagnostics` or `quota`."""
    retry_after_s: int | None = None

    code: ClassVar[str] = "invalid_request"
    status: ClassVar[int] = 400

    def __str__(self) -> str:
        return self.detail


class QuotaExceeded(ApiError):
    """`extra` names the quota with its limit, what is used of it, and when it is reset."""

    code: ClassVar[str] = "quota_exceeded"
    status: ClassVar[int] = 429


class PlatformFault(RewindFault):
    pass


@dataclass
class Divergence(PlatformFault):
    """The script, re-executed, did not do what its journal says. Never the script's fault."""

    seq: Seq | None
    """Of the recorded command that should have come next; None when the journal has no more commands."""
    expected: Json
    actual: Json
    field_name: str
    line: int | None = None
    recorded_line: int | None = None

    code: ClassVar[str] = "divergence"

    def __str__(self) -> str:
        where = "after the last recorded command" if self.seq is None else f"at entry {self.seq}"
        return f"replay diverged {where}: {self.field_name} was {self.expected!r}, is now {self.actual!r}"


class ImpossibleEntry(PlatformFault):
    code: ClassVar[str] = "impossible_entry"


class Unavailable(RewindFault):
    code: ClassVar[str] = "unavailable"
    status: ClassVar[int] = 503

    def __init__(self, detail: str, *, retry_after_ms: int = 1_000) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after_ms = retry_after_ms
