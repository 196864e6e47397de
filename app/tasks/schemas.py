"""Bodies of `/v1/tasks`."""

from typing import Any

from pydantic import Field

from app.durations import DurationMs
from app.schemas import Answer, Body, Text
from app.toolsets.names import NAME_CHARS_MAX

ITEMS_MAX = 100
WAIT_MS_MAX = 60_000
LINGER_MS_MAX = 1_000
UUID_PATTERN = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class ClaimBody(Body):
    toolset: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    tools: list[Text] | None = Field(
        default=None, max_length=1_000, description="Names of host tools; absent: all of them."
    )
    max: int = Field(ge=1, le=ITEMS_MAX)
    wait: DurationMs = Field(default=0, le=WAIT_MS_MAX)
    claim_id: str | None = Field(
        default=None,
        pattern=UUID_PATTERN,
        description="A UUID of the caller: asked again, it is answered with the tasks that it holds already.",
    )
    namespace: str | None = Field(default=None, description="Absent, for a key: all namespaces.")


class NextClaim(ClaimBody):
    """A claim in a settling call."""

    linger_ms: int = Field(
        default=0, ge=0, le=LINGER_MS_MAX, description="After the first offer, wait for more of them."
    )


class _Item(Body):
    token: str = Field(max_length=200)


class CompleteItem(_Item):
    result: Any = Field(...)


class FailureBody(Body):
    message: str
    code: str | None = Field(default=None, min_length=1, max_length=128)
    data: Any = None
    retryable: bool | None = None


class FailItem(_Item):
    error: FailureBody


class HeartbeatItem(_Item):
    pass


class DeferItem(_Item):
    expires: DurationMs | None = None


class ReleaseItem(_Item):
    after: DurationMs | None = None


class _Settling(Body):
    claim: NextClaim | None = None


class CompleteBody(_Settling):
    items: list[CompleteItem] = Field(max_length=ITEMS_MAX)


class FailBody(_Settling):
    items: list[FailItem] = Field(max_length=ITEMS_MAX)


class HeartbeatBody(_Settling):
    items: list[HeartbeatItem] = Field(max_length=ITEMS_MAX)


class DeferBody(_Settling):
    items: list[DeferItem] = Field(max_length=ITEMS_MAX)


class ReleaseBody(_Settling):
    items: list[ReleaseItem] = Field(max_length=ITEMS_MAX)


class TaskView(Answer):
    token: str
    run: str
    namespace: str
    call: int
    tool: str = Field(description="As its owner calls it.", max_length=NAME_CHARS_MAX)
    args: Any
    attempt: int
    idempotency_key: str
    lease_ms: int
    labels: dict[str, str]


class ClaimView(Answer):
    tasks: list[TaskView]


class ItemResult(Answer):
    token: str
    ok: bool
    lease_ms: int | None = None
    cancel: bool | None = None
    code: str | None = None
    detail: str | None = None


class SettleView(Answer):
    results: list[ItemResult]
    tasks: list[TaskView] | None = None
