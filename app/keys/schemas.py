"""Bodies and answers of `/v1/keys`."""

from typing import Annotated

from pydantic import AfterValidator, Field

from app.durations import DurationMs
from app.responses import time_ms
from app.schemas import Answer, Body, Text
from tenancy.principals import KEY_SCOPES

OVERLAP_MS_DEFAULT = 86_400_000
OVERLAP_MS_MAX = 30 * 86_400_000


def _scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if scope not in KEY_SCOPES:
            raise ValueError(f"{scope[:40]!r} is no scope; these are: {', '.join(KEY_SCOPES)}.")
    return list(dict.fromkeys(scopes))


def _time(text: str) -> str:
    try:
        time_ms(text)
    except ValueError:
        raise ValueError("A time in ISO 8601 with its zone, such as 2027-01-31T00:00:00Z.") from None
    return text


class KeyBody(Body):
    name: Text = Field(default="", max_length=200)
    scopes: Annotated[list[str], AfterValidator(_scopes)] = Field(
        default_factory=lambda: [str(scope) for scope in KEY_SCOPES], description="Absent: all."
    )
    expires_at: Annotated[str, AfterValidator(_time)] | None = Field(
        default=None, max_length=40, description="Absent: never."
    )
    allow_ips: list[Annotated[str, Field(max_length=60)]] = Field(
        default_factory=list, max_length=100, description="Addresses or networks; none: from everywhere."
    )


class RotateKeyBody(Body):
    overlap: DurationMs = OVERLAP_MS_DEFAULT


class KeyView(Answer):
    id: str
    key: str | None = Field(default=None, description="Only in the answer that made it.")
    prefix: str
    name: str
    scopes: list[str]
    allow_ips: list[str]
    expires_at: str | None
    created_at: str
    last_used_at: str | None
    previous_until: str | None = Field(description="The secret before the last rotation works until then.")


class KeyPage(Answer):
    data: list[KeyView]
    next: str | None
