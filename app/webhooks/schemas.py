"""Bodies and answers of `/v1/webhooks` and `/v1/events`."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from app.durations import DurationMs
from app.schemas import Answer, Body, Labels, Text
from tenancy.service import NAMESPACE_NAME

EVENT_TYPES = (
    "run.completed",
    "run.failed",
    "run.cancelled",
    "run.aborted",
    "run.quarantined",
    "approval.requested",
    "quota.exceeded",
    "ping",
)
"""What an endpoint may ask for; a `ping` that somebody asks for comes whatever it wants."""
URL_CHARS_MAX = 2_000
NAMESPACES_MAX = 1_000
ROTATION_MS_DEFAULT = 86_400_000
ROTATION_MS_MAX = 30 * 86_400_000


def _types(types: list[str]) -> list[str]:
    for name in types:
        if name not in EVENT_TYPES:
            raise ValueError(f"{name[:40]!r} is no type of an event; these are: {', '.join(EVENT_TYPES)}.")
    return list(dict.fromkeys(types))


def _names(names: list[str]) -> list[str]:
    for name in names:
        if NAMESPACE_NAME.fullmatch(name) is None:
            raise ValueError(f"{name[:130]!r} is no name of a namespace.")
    return list(dict.fromkeys(names))


Types = Annotated[list[str], Field(max_length=len(EVENT_TYPES) * 2), AfterValidator(_types)]
Names = Annotated[list[str], Field(max_length=NAMESPACES_MAX), AfterValidator(_names)]
Url = Annotated[Text, Field(min_length=1, max_length=URL_CHARS_MAX)]


class WebhookBody(Body):
    url: Url = Field(description="https, on the public internet.")
    events: Types = Field(default_factory=list, description="Types of events; none: all.")
    namespaces: Names = Field(default_factory=list, description="Names of namespaces; none: all.")
    labels: Labels = Field(
        default_factory=dict, description="Labels that the run must have, each with this value."
    )


class WebhookChange(Body):
    url: Url | None = None
    events: Types | None = None
    namespaces: Names | None = None
    labels: Labels | None = None
    enabled: bool | None = Field(default=None, description="true switches on what was switched off.")


class RotateBody(Body):
    overlap: DurationMs = ROTATION_MS_DEFAULT


class RedeliverBody(Body):
    """Which deliveries are made again: all that every given field fits."""

    status: Literal["delivered", "failed"] | None = "failed"
    type: str | None = Field(default=None, max_length=64)
    from_: str | None = Field(default=None, alias="from", max_length=40)
    to: str | None = Field(default=None, max_length=40)


class WebhookView(Answer):
    id: str
    url: str
    events: list[str]
    namespaces: list[str]
    labels: dict[str, str]
    enabled: bool
    disabled_reason: str | None
    failing_since: str | None
    created_at: str
    secret: str | None = Field(default=None, description="Only in the answer that made it.")


class WebhookPage(Answer):
    data: list[WebhookView]
    next: str | None


class ResponseView(Answer):
    code: int
    body: str


class DeliveryView(Answer):
    id: str
    event_id: str
    type: str
    attempt: int
    status: Literal["pending", "delivered", "failed"]
    response: ResponseView | None = Field(description="Of the last attempt; null: there was no answer.")
    error: str | None = Field(description="Why there was no answer.")
    duration_ms: int | None
    at: str | None
    next_at: str | None


class DeliveryPage(Answer):
    data: list[DeliveryView]
    next: str | None


class PingView(Answer):
    event_id: str


class RedeliveredView(Answer):
    redelivered: int


class EventView(Answer):
    id: str
    type: str
    timestamp: str
    sequence: int | None
    data: dict[str, Any]


class EventPage(Answer):
    data: list[EventView]
    next: str | None
