"""The objects of the API as Python sees them.

Answers may gain fields at any time: unknown ones are kept in `raw` and never an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Generic, Literal, NotRequired, Self, TypedDict, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")

Duration = int | float | str | timedelta
"""Milliseconds, text such as "30s" or "1h 30m", or a timedelta."""
Status = Literal["active", "completed", "failed", "cancelled", "aborted", "quarantined"]
Until = Literal["ended", "blocked"]
ENDED: frozenset[str] = frozenset({"completed", "failed", "cancelled", "aborted"})


class CallOptions(TypedDict, total=False):
    """What every call takes besides its own arguments. `timeout` is in seconds."""

    timeout: float
    max_retries: int
    idempotency_key: str
    extra_headers: Mapping[str, str]


class ValueObject(TypedDict):
    """A journaled value: digest and size of its canonical JSON; `value` is absent above 64 KiB."""

    sha256: str
    bytes: int
    value: NotRequired[Any]
    redacted: NotRequired[bool]


class Callsite(TypedDict):
    line: int
    column: int


class Entry(TypedDict):
    """One journal entry: these fields, and those of its `type`."""

    seq: int
    type: str
    time: int
    cause: NotRequired[int]
    callsite: NotRequired[Callsite]
    fire_at: NotRequired[int]
    call: NotRequired[int]
    tool: NotRequired[str]
    args: NotRequired[ValueObject]
    result: NotRequired[ValueObject]
    error: NotRequired[dict[str, Any]]
    timer: NotRequired[int]
    wait: NotRequired[int]
    name: NotRequired[str]
    payload: NotRequired[ValueObject]
    input: NotRequired[ValueObject]
    output: NotRequired[ValueObject]


@dataclass(kw_only=True)
class Answer:
    """What all answers share: the request's id, and the JSON as it came."""

    request_id: str | None = field(default=None, compare=False)
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_wire(cls, data: dict[str, Any], request_id: str | None = None) -> Self:
        known = {f.name for f in fields(cls)} - {"request_id", "raw"}
        return cls(
            **{key: value for key, value in data.items() if key in known}, request_id=request_id, raw=data
        )


@dataclass(kw_only=True)
class Run(Answer):
    id: str
    namespace: str
    status: Status
    cancelling: bool = False
    waiting_for: list[dict[str, Any]] = field(default_factory=list)
    waiting_count: int = 0
    input: Any = None
    output: Any = None
    output_bytes: int | None = None
    output_truncated: bool = False
    output_preview: str | None = None
    error: dict[str, Any] | None = None
    reason: str | None = None
    progress: Any = None
    labels: dict[str, str] = field(default_factory=dict)
    script: str | None = None
    workflow: str | None = None
    toolset: str | None = None
    parent: dict[str, Any] | None = None
    forks: list[str] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    epoch: int | None = None
    warnings: list[dict[str, Any]] = field(default_factory=list)
    created_by: dict[str, Any] | None = None
    started_at: str | None = None
    ended_at: str | None = None
    deadline: str | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    fork: dict[str, Any] | None = None
    """Of forks: what they reuse; None until that is known."""

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    def output_as(self, kind: type[T]) -> T:
        """The output checked against a type: a pydantic model, a dataclass, `list[int]`, ..."""
        return TypeAdapter(kind).validate_python(self.output)


@dataclass(kw_only=True)
class ForkPlan(Answer):
    """What a fork would reuse: counts of calls, signals and timers; what it would not; where the courses part."""

    reused: dict[str, int]
    dropped: list[dict[str, Any]] = field(default_factory=list)
    diverged_at: dict[str, Any] | None = None


@dataclass(kw_only=True)
class SignalReceipt(Answer):
    id: str
    duplicate: bool = False


@dataclass(kw_only=True)
class Toolset(Answer):
    name: str
    digest: str
    id: str | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[Any] = field(default_factory=list)


@dataclass(kw_only=True)
class FoundTool(Answer):
    """A tool that fits a search; `declaration` is its signature in TypeScript."""

    name: str
    description: str = ""
    declaration: str = ""
    kind: str | None = None
    approval: Any = None


@dataclass(kw_only=True)
class ScriptCheck(Answer):
    """`ok` is False only with an error among the diagnostics, which are dicts with `severity`, `code`, `message`,
    `line`, `column`, `end_line`, `end_column`, `frame` and perhaps `hint`.
    """

    ok: bool
    digest: str
    input_type: str | None = None
    output_type: str | None = None
    diagnostics: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class Script(Answer):
    """A known script; lists leave `source` out."""

    digest: str
    source: str | None = field(default=None, repr=False)
    toolset: str | None = None
    input_type: str | None = None
    output_type: str | None = None
    created_at: str | None = None


@dataclass(kw_only=True)
class Token(Answer):
    """A namespace token; `token`, the secret, is given once, when it is created."""

    id: str
    namespace: str
    token: str | None = field(default=None, repr=False)
    prefix: str | None = None
    name: str | None = None
    scopes: list[str] = field(default_factory=list)
    narrow: dict[str, Any] | None = None
    expires_at: str | None = None
    created_at: str | None = None
    last_used_at: str | None = None


@dataclass(kw_only=True)
class Workflow(Answer):
    """A script under a name, at one of its versions."""

    name: str
    digest: str
    script: str
    toolset: str | None = None
    description: str = ""
    input_type: str | None = None
    output_type: str | None = None
    warnings: list[dict[str, Any]] = field(default_factory=list)
    created_at: str | None = None
    id: str | None = None
    updated_at: str | None = None
    source: str | None = None
    """Given by `get` only."""


@dataclass(kw_only=True)
class Secret(Answer):
    """What may be told of a secret. `namespace` None: it is the organization's."""

    name: str
    namespace: str | None = None
    created_at: str | None = None
    updated_at: str | None = None


@dataclass(kw_only=True)
class Approval(Answer):
    """A call that waits, or waited, for a person. Large `args` are None: `args_preview` is their head.

    `args_sha256`: of their canonical JSON, as in the journal; what is decided here is sent as it is, or not at all.
    """

    run: str
    namespace: str
    call: int
    tool: str
    args: Any = None
    args_sha256: str | None = None
    args_truncated: bool = False
    args_preview: str | None = None
    line: int | None = None
    column: int | None = None
    frame: str | None = None
    script: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    requested_at: str | None = None
    expires_at: str | None = None
    status: str
    decided_at: str | None = None
    reason: str | None = None
    by: str | None = None
    actor: dict[str, str] | None = None
    story: list[dict[str, Any]] | None = None


@dataclass(kw_only=True)
class Decided(Answer):
    """What became of one decision of many."""

    run: str
    call: int
    ok: bool
    approval: dict[str, Any] | None = None
    code: str | None = None
    detail: str | None = None


@dataclass(kw_only=True)
class Webhook(Answer):
    """An endpoint of webhooks. `secret` stands only in the answer that made it."""

    id: str
    url: str
    secret: str | None = None
    events: list[str] = field(default_factory=list)
    namespaces: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    enabled: bool = True
    disabled_reason: str | None = None
    failing_since: str | None = None
    created_at: str | None = None


@dataclass(kw_only=True)
class Delivery(Answer):
    """What became of one event at one endpoint; `response` is that of the last attempt."""

    id: str
    event_id: str
    type: str
    attempt: int
    status: str
    response: dict[str, Any] | None = None
    error: str | None = None
    duration_ms: int | None = None
    at: str | None = None
    next_at: str | None = None


@dataclass(kw_only=True)
class Namespace(Answer):
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    status: str | None = None
    retention_days: int | None = None
    created_at: str | None = None
    suspended_at: str | None = None


@dataclass(kw_only=True)
class Page(Answer, Generic[T]):
    data: list[T]
    next: str | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One leased attempt of a host-tool call."""

    token: str
    run: str
    namespace: str
    call: int
    tool: str
    args: Any
    attempt: int = 1
    idempotency_key: str = ""
    lease_ms: int = 30_000
    labels: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_wire(cls, data: dict[str, Any]) -> Self:
        return cls(**{key: data[key] for key in _TASK_FIELDS if key in data})


_TASK_FIELDS = tuple(f.name for f in fields(Task))


class Settled(TypedDict):
    """Verdict on one item of a tasks call."""

    token: str
    ok: bool
    code: NotRequired[str]
    detail: NotRequired[str]
    lease_ms: NotRequired[int]
    cancel: NotRequired[bool]


def duration_ms(value: Duration) -> int | str:
    """A duration as the API takes it: whole milliseconds, or the text unchanged."""
    if isinstance(value, str):
        return value
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    return round(value)


def given(**members: Any) -> dict[str, Any]:
    """The members that are not None: what a caller left out is left out of the request."""
    return {name: value for name, value in members.items() if value is not None}
