"""Bodies and answers of `/v1/runs`."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from app.durations import DurationMs
from app.responses import time_ms
from app.schemas import Answer, Labels, NamespacedBody, Text
from sandbox.journal.ids import TimeMs

WAIT_MS_MAX = 60_000
Until = Literal["ended", "blocked"]
Status = Literal["active", "completed", "failed", "cancelled", "aborted", "quarantined"]
START_AT_MAX = TimeMs(253_370_764_800_000)
"""The year 9999: a later time has no ISO form."""


def _start_at(value: object) -> TimeMs:
    try:
        if type(value) not in {int, str}:
            raise ValueError(value)
        at = time_ms(str(value))
    except (ValueError, OverflowError):
        raise ValueError("A time is ISO 8601 with its zone, or ms since 1970.") from None
    if at > START_AT_MAX:
        raise ValueError("This time is too far ahead.")
    return at


StartAt = Annotated[Any, AfterValidator(_start_at), WithJsonSchema({"type": ["string", "integer"]})]


class StartRunBody(NamespacedBody):
    script: str | None = Field(default=None, description="Source text, or the digest of a known script.")
    workflow: str | None = None
    toolset: str | None = Field(default=None, description="`name` (its latest) or `name@sha256:…`.")
    input: Any = Field(default=None, description="The argument of `main`.")
    wait: DurationMs = Field(
        default=0, le=WAIT_MS_MAX, description="Answer when the run has ended, at most 60 s."
    )
    until: Until = "ended"
    ttl: DurationMs | None = Field(
        default=None, gt=0, description="The run is cancelled after this; 30 days."
    )
    labels: Labels = Field(default_factory=dict)
    start_at: StartAt | None = Field(
        default=None, description="Not before this time: ISO 8601 with its zone, or ms since 1970."
    )
    traceparent: Any = None


class SignalBody(NamespacedBody):
    name: str = Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")
    payload: Any = None
    id: Text | None = Field(default=None, min_length=1, max_length=255, description="Unique in the run.")
    by: str | None = Field(default=None, max_length=255)


class CancelBody(NamespacedBody):
    reason: str | None = Field(default=None, max_length=4_096)


class WaitingFor(Answer):
    kind: Literal["tool_call", "approval", "signal", "timer", "child_run"]
    call: int | None = None
    tool: str | None = None
    name: str | None = None
    run: str | None = None
    since: str
    until: str | None = None
    line: int | None
    deferred: bool | None = None


class RunError(Answer):
    name: str
    message: str
    code: str | None = None
    line: int | None
    column: int | None
    frame: str | None
    stack: str | None
    cause: Any = None
    truncated: bool = False
    limit: str | None = None
    allowed: int | None = None
    used: int | None = None


class ParentRun(Answer):
    run: str
    kind: Literal["fork", "workflow"]
    call: int | None = None


class CreatedBy(Answer):
    kind: str
    id: str


class RunUsage(Answer):
    cpu_ms: float
    calls: int
    entries: int
    activations: int


class Reused(Answer):
    calls: int
    signals: int
    timers: int


class Dropped(Answer):
    seq: int
    type: Literal["signal_received", "timer_fired"]
    name: str | None = None
    id: str | None = None
    timer: int | None = None


class DivergedAt(Answer):
    seq: int = Field(description="Of the parent's entry that the fork's script did not do.")
    line: int | None = Field(description="Of the fork's script.")
    expected: dict[str, Any]
    actual: dict[str, Any]


class ForkPlan(Answer):
    reused: Reused
    dropped: list[Dropped] = Field(description="Signals and firings of the parent that are not reused.")
    diverged_at: DivergedAt | None


class RunView(Answer):
    id: str
    namespace: str
    status: Status
    cancelling: bool
    waiting_for: list[WaitingFor]
    waiting_count: int
    input: Any
    output: Any
    output_bytes: int | None
    output_truncated: bool
    output_preview: str | None
    error: RunError | None
    reason: str | None
    progress: Any
    labels: dict[str, str]
    script: str
    workflow: str | None
    toolset: str | None
    parent: ParentRun | None
    forks: list[str]
    children: list[str]
    epoch: int
    warnings: list[Any]
    created_by: CreatedBy
    started_at: str
    ended_at: str | None
    deadline: str
    usage: RunUsage
    fork: ForkPlan | None = Field(
        default=None,
        description="Of forks only: what of the parent is reused. Null: not known yet; `GET /v1/runs/{run}` has it then.",
    )


class RunPage(Answer):
    data: list[RunView]
    next: str | None


class OutputView(Answer):
    text: str
    offset: int
    bytes: int
    total: int
    next: int | None


class SealView(Answer):
    root: str = Field(
        description="SHA-256 of `rewind/1`, the run's id and the digest of each entry, by lines."
    )
    entries: int
    sealed_at: str
    previous: str | None = Field(
        description="The link before this one in the chain of the namespace's seals."
    )


class EntryPage(Answer):
    data: list[dict[str, Any]]
    next: int | None


class SignalView(Answer):
    id: str
    duplicate: bool


class AnsweredCall(Answer):
    call: int
    tool: str
    args: Any
    result: Any = None
    error: dict[str, Any] | None = None
    after: int | None = Field(default=None, description="ms from scheduling to completion.")
    order: int | None = Field(
        default=None, description="Seq of the outcome, where others have the same time."
    )


class CassetteView(Answer):
    cassette: Literal[1]
    run: str
    script: str
    toolset: str | None
    epoch: int
    seed: str
    started_at: str
    input: Any
    calls: list[AnsweredCall]
    signals: list[dict[str, Any]]
    ended: dict[str, Any] | None
