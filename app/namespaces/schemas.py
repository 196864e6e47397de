"""Bodies and answers of `/v1/namespaces`."""

from pydantic import Field

from app.schemas import Answer, Body, Labels

RETENTION_DAYS_MAX = 3_650


class NamespaceBody(Body):
    labels: Labels | None = None
    retention_days: int | None = Field(
        default=None,
        ge=1,
        le=RETENTION_DAYS_MAX,
        description="How long runs are kept after their end; null: as the deployment says, 30 days.",
    )


class NamespaceView(Answer):
    id: str
    name: str
    labels: dict[str, str]
    status: str = Field(description="active or suspended")
    retention_days: int
    created_at: str
    suspended_at: str | None


class NamespacePage(Answer):
    data: list[NamespaceView]
    next: str | None


class ChainedSealView(Answer):
    position: int
    run: str
    root: str
    entries: int
    sealed_at: str
    previous: str | None


class SealPage(Answer):
    data: list[ChainedSealView]
    next: int | None
