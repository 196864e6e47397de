"""Bodies and answers of tests and replays."""

from typing import Any, Literal

from pydantic import Field

from app.durations import DurationMs
from app.runs.schemas import AnsweredCall, RunError, WaitingFor
from app.schemas import Answer, Body, NamespacedBody


class SignalOfTest(Body):
    name: str = Field(min_length=1, max_length=128)
    payload: Any = None
    at: DurationMs = Field(default=0, description="After the start, in virtual time.")


class TestBody(NamespacedBody):
    script: str = Field(description="Source text, or the digest of a known script.")
    toolset: str | None = Field(default=None, description="`name` (its latest) or `name@sha256:…`.")
    input: Any = Field(default=None, description="The argument of `main`; absent: the cassette's.")
    cassette: dict[str, Any] | None = Field(
        default=None,
        description="What `GET /runs/{id}/journal?as=cassette` answers: its calls answer this test's.",
    )
    mocks: dict[str, Any] | None = Field(
        default=None,
        description='`{"group.tool": [{args?, result or error, after?, repeat?}]}`; `args` "*" is any. Tried '
        "before the cassette; each row answers once unless `repeat`.",
    )
    signals: list[SignalOfTest] | None = None
    approvals: dict[str, Literal["approved", "denied"]] | None = Field(
        default=None, description="Decisions on calls that need an approval, by tool."
    )


class LogLine(Answer):
    level: Literal["debug", "log", "info", "warn", "error", "progress"]
    values: list[Any]
    line: int | None


class UnusedAnswer(Answer):
    tool: str
    args: Any
    from_: Literal["mocks", "cassette"] = Field(alias="from")


class MissingAnswer(Answer):
    tool: str
    args: Any
    line: int | None


class TestView(Answer):
    status: Literal["active", "completed", "failed", "cancelled", "aborted"] = Field(
        description="`active`: nothing can happen any more; `waiting_for` says what it waits for."
    )
    output: Any
    error: RunError | None
    calls: list[AnsweredCall]
    logs: list[LogLine]
    waiting_for: list[WaitingFor]
    journal: list[dict[str, Any]]
    unused: list[UnusedAnswer]
    missing: list[MissingAnswer]


class ReplayBody(NamespacedBody):
    script: str | None = Field(
        default=None, description="Another script: is it compatible with this history?"
    )
    overrides: dict[str, Any] | None = Field(
        default=None, description='What-if: `{"3": {"result": …}}` answers call 3 otherwise.'
    )


class DivergedAt(Answer):
    seq: int | None
    type: str | None
    field: str
    expected: Any
    actual: Any
    line: int | None
    recorded_line: int | None


class StoppedAt(Answer):
    call: int
    tool: str
    args: Any
    line: int | None


class ChangedCall(Answer):
    call: int
    was: dict[str, Any] | None
    now: dict[str, Any] | None
    line: int | None


class ReplayView(Answer):
    matches: bool
    diverged_at: DivergedAt | None = None
    stopped_at: StoppedAt | None = None
    calls: list[AnsweredCall]
    changed: list[ChangedCall]
    output: Any
    status: str | None = None
    error: RunError | None = None


class PendingReplay(Answer):
    id: str
