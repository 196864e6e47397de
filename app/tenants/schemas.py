"""Bodies and answers of `/v1/me` and `/v1/tokens`."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from app.durations import duration_ms
from app.schemas import Answer, Body, NamespacedBody, Text
from tenancy.principals import TOKEN_SCOPES, TOKEN_SCOPES_DEFAULT

TTL_MS_DEFAULT = 86_400_000
TTL_MS_MAX = 3_650 * 86_400_000


def _ttl(value: Any) -> int | None:
    if value is None:
        return None
    ttl = duration_ms(value)
    if not 1 <= ttl <= TTL_MS_MAX:
        raise ValueError("A token lives from 1 ms to 10 years; null: until it is revoked.")
    return ttl


def _scopes(scopes: list[str]) -> list[str]:
    for scope in scopes:
        if scope not in TOKEN_SCOPES:
            raise ValueError(f"{scope[:40]!r} is no scope of a token; these are: {', '.join(TOKEN_SCOPES)}.")
    return list(dict.fromkeys(scopes))


class NarrowBody(Body):
    toolset: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9_-]{0,63}$")
    workflows: list[Annotated[Text, Field(max_length=64)]] | None = Field(default=None, max_length=200)
    run: str | None = Field(
        default=None, pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
    )
    signals: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,128}$")]] | None = Field(
        default=None, max_length=200
    )


class TokenBody(NamespacedBody):
    scopes: Annotated[list[str], AfterValidator(_scopes)] = Field(
        default_factory=lambda: [str(scope) for scope in TOKEN_SCOPES_DEFAULT]
    )
    ttl: Annotated[
        int | None,
        BeforeValidator(_ttl),
        WithJsonSchema(
            {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "null"}], "default": "24h"}
        ),
    ] = TTL_MS_DEFAULT
    name: Text = Field(default="", max_length=200)
    narrow: NarrowBody = Field(default_factory=NarrowBody)


class TokenView(Answer):
    id: str
    token: str | None = Field(default=None, description="Only in the answer to its creation.")
    prefix: str
    name: str
    namespace: str
    scopes: list[str]
    narrow: dict[str, Any]
    expires_at: str | None
    created_at: str
    last_used_at: str | None


class TokenPage(Answer):
    data: list[TokenView]
    next: str | None


class PrincipalView(Answer):
    kind: str
    id: str
    organization: str
    namespace: str | None
    narrow: dict[str, Any]


class MeView(Answer):
    principal: PrincipalView
    scopes: list[str]
    limits: dict[str, int]
