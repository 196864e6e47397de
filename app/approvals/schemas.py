"""Bodies and answers of approvals."""

from typing import Any, Literal

from pydantic import Field

from app.runs.schemas import CreatedBy
from app.schemas import Answer, NamespacedBody, Text

REASON_CHARS_MAX = 2_000
BY_CHARS_MAX = 255
ITEMS_MAX = 100
Status = Literal["pending", "approved", "denied", "expired"]


class DecisionBody(NamespacedBody):
    decision: Literal["approved", "denied"]
    reason: Text | None = Field(
        default=None, max_length=REASON_CHARS_MAX, description="The script gets it with a refusal."
    )
    by: Text | None = Field(
        default=None, max_length=BY_CHARS_MAX, description="Who decided, as you call them."
    )


class DecisionItem(DecisionBody):
    run: str = Field(max_length=64)
    call: int = Field(ge=1, le=2**31 - 1)


class DecideBody(NamespacedBody):
    items: list[DecisionItem] = Field(min_length=1, max_length=ITEMS_MAX)


class StoryCall(Answer):
    call: int
    tool: str
    line: int | None
    status: Literal["pending", "completed", "failed"]
    args: str = Field(description="JSON text, cut to its head.")
    result: str | None = Field(default=None, description="JSON text, cut to its head.")
    error: str | None = None


class ApprovalView(Answer):
    run: str
    namespace: str
    call: int
    tool: str
    args: Any = Field(description="null when it is large: then `args_preview` is its head.")
    args_bytes: int
    args_sha256: str = Field(description="To read it whole: `GET /v1/runs/{run}/values/{sha256}`.")
    args_truncated: bool
    args_preview: str | None
    line: int | None
    column: int | None
    frame: str | None
    script: str
    labels: dict[str, str]
    requested_at: str
    expires_at: str
    status: Status
    decided_at: str | None
    reason: str | None
    by: str | None
    actor: CreatedBy | None
    story: list[StoryCall] | None = Field(
        description="The run's latest calls before this one, oldest first; null in `GET /v1/approvals`."
    )


class ApprovalPage(Answer):
    data: list[ApprovalView]
    next: str | None


class Decided(Answer):
    run: str
    call: int
    ok: bool
    approval: ApprovalView | None = None
    code: str | None = None
    detail: str | None = None


class DecidedView(Answer):
    results: list[Decided] = Field(description="In the order of the items.")
