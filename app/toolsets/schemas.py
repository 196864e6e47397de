"""Bodies and answers of `/v1/toolsets`."""

from typing import Any, Literal

from pydantic import Field

from app.durations import DurationMs
from app.schemas import Answer, Body, Text


class RetryBody(Body):
    attempts: int = Field(ge=1, le=100, description="Attempts in all, the first included.")
    backoff: DurationMs = Field(default=1_000, description="Before the second attempt; doubled each time.")
    max: DurationMs = Field(default=300_000, description="The longest back-off.")


class ConcurrencyBody(Body):
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of an argument: calls that have the same value for it share the limit. Absent: all calls.",
    )
    limit: int = Field(ge=1, le=10_000, description="Calls that have begun and have no outcome yet.")


class RateBody(Body):
    limit: int = Field(ge=1, le=1_000_000, description="Calls that begin within any `per`.")
    per: DurationMs


class LimitedBody(Body):
    """How calls are made."""

    retry: RetryBody | None = None
    timeout: DurationMs | None = Field(default=None, description="Of a call, counted from its first claim.")
    queue_timeout: DurationMs | None = Field(default=None, description="From the offer to the first claim.")
    concurrency: ConcurrencyBody | None = None
    rate: RateBody | None = None


class ToolBody(LimitedBody):
    name: str = Field(description="`name` or `group.name`.", examples=["github.list_issues"])
    description: Text = Field(max_length=16_384)
    input_schema: Any = Field(
        description="JSON Schema (2020-12, or a draft before it that `$schema` names) of the arguments.",
        json_schema_extra={"type": "object"},
    )
    output_schema: Any = Field(
        default=None, description="JSON Schema of the result.", json_schema_extra={"type": "object"}
    )
    approval: Any = Field(
        default=None,
        description="true, or an object with `expires`: each call waits for an approval.",
        json_schema_extra={"anyOf": [{"const": True}, {"type": "object"}]},
    )
    idempotent: bool = Field(default=False, description="A call may be sent again when its outcome is lost.")


class SecretRef(Body):
    """Names a secret that was written with `PUT /v1/secrets`; its value is put in when a call is sent."""

    secret: str = Field(max_length=128)


class OAuthBody(Body):
    """Client credentials of OAuth 2.0: a token is fetched, and presented as `Authorization: Bearer`."""

    token_url: str
    client_id: str = Field(min_length=1, max_length=1_000)
    client_secret: SecretRef
    scope: Text | None = Field(default=None, max_length=2_000)


class AuthBody(Body):
    """A secret that is the bearer token, or how one is fetched: one of the two."""

    secret: str | None = Field(default=None, max_length=128)
    oauth: OAuthBody | None = None


class HttpBody(LimitedBody):
    """`concurrency.key` may be `host`."""

    allow: list[str] = Field(
        min_length=1,
        max_length=200,
        description="Hosts: `api.example.com`, `*.example.com`, `*`, each perhaps with a port.",
    )
    approval: Any = Field(
        default=None,
        description="true, or an object with `expires`: each call waits for an approval.",
        json_schema_extra={"anyOf": [{"const": True}, {"type": "object"}]},
    )
    headers: dict[str, dict[str, str | SecretRef]] = Field(
        default_factory=dict,
        max_length=100,
        description="By host pattern, headers that are put in when a request goes there; scripts do not see them.",
    )


class McpBody(LimitedBody):
    """Limits are shared by all tools of the server."""

    name: str = Field(description="The group of its tools in scripts.", max_length=64, examples=["github"])
    url: str = Field(description="Of its streamable HTTP endpoint.", examples=["https://mcp.example.com/mcp"])
    auth: AuthBody | None = Field(default=None, description="Sent as `Authorization: Bearer`.")
    headers: dict[str, str | SecretRef] = Field(default_factory=dict, max_length=32)
    approval: Any = Field(
        default=None,
        description="true, or the tools whose calls wait for an approval.",
        json_schema_extra={"anyOf": [{"const": True}, {"type": "array", "items": {"type": "string"}}]},
    )
    results: dict[str, Literal["text", "json", "content"]] = Field(
        default_factory=dict, max_length=1_000, description="What results of these tools are to scripts."
    )
    pin_as: str | None = Field(
        default=None, description="Namespace whose secrets are used to list the tools.", max_length=128
    )


class ToolsetBody(Body):
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$", examples=["support"])
    tools: list[ToolBody] = Field(default_factory=list, max_length=1_000)
    mcp: list[McpBody] = Field(default_factory=list, max_length=50)
    http: HttpBody | None = Field(default=None, description="Lets scripts make HTTP requests.")
    workflows: list[str] | None = Field(
        default=None, max_length=200, description="That its scripts may call, each at its latest version now."
    )
    secrets: Literal["namespace", "fallback"] | None = Field(
        default=None, description="`namespace`: a namespace's own secrets only, never the organization's."
    )


class ToolView(Answer):
    name: str = Field(description="What the tool is called in scripts.")
    original: str = Field(description="What the tool is called by its owner.")
    kind: str = Field(examples=["host", "mcp", "http"])
    approval: Any
    idempotent: bool
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    disabled: str | None = Field(default=None, description="Why scripts cannot use it; absent: they can.")


class FoundTool(Answer):
    name: str = Field(description="What the tool is called in scripts.")
    description: str
    declaration: str = Field(description="Its signature in TypeScript, with the types that it refers to.")
    kind: str = Field(examples=["host", "mcp"])
    approval: Any


class FoundTools(Answer):
    data: list[FoundTool] = Field(description="The best match first.")


class RefreshBody(Body):
    accept: bool | list[str] = Field(
        default=False,
        description="true: pin everything as the servers have it now; or the names of the tools to pin anew.",
    )


class ToolChange(Answer):
    tool: str = Field(description="What the tool is called in scripts.")
    server: str | None
    change: Literal["added", "removed", "changed"]
    fields: list[str] = Field(description="What differs of a changed tool.")
    before: ToolView | None
    after: ToolView | None


class RefreshView(Answer):
    changes: list[ToolChange] = Field(description="How the servers differ from what is pinned.")
    digest: str = Field(description="The latest version now: another one only when something was accepted.")


class ToolsetView(Answer):
    id: str
    name: str
    digest: str = Field(examples=["sha256:…"])
    tools: list[ToolView]
    warnings: list[str]
    mcp: list[dict[str, Any]] | None = Field(
        default=None,
        description="As declared; only `GET` by who may register toolsets has it, and what follows.",
    )
    http: dict[str, Any] | None = None
    secrets: Literal["namespace", "fallback"] | None = None


class ToolsetPage(Answer):
    data: list[ToolsetView]
    next: str | None
