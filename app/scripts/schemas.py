"""Bodies and answers of `/v1/scripts`."""

from typing import Any, Literal

from pydantic import Field

from app.schemas import Answer, NamespacedBody


class CheckScriptBody(NamespacedBody):
    script: str = Field(description="Source text, or the digest of a known script.")
    toolset: str | None = Field(default=None, description="`name` (its latest) or `name@sha256:…`.")
    input: Any = Field(default=None, description="Checked against the type of main's parameter, if given.")


class DiagnosticView(Answer):
    severity: Literal["error", "warning"]
    code: str = Field(description="`TS2345` for TypeScript's, snake_case for ours.")
    message: str
    line: int = Field(description="1-based, of the source as it was sent.")
    column: int = Field(description="1-based, in UTF-16 code units.")
    end_line: int
    end_column: int
    frame: str = Field(description="The lines around, with a caret; may be empty.")
    hint: str | None = Field(default=None, description="What to write instead.")


class CheckView(Answer):
    ok: bool = Field(description="False only with an error: warnings keep no script from running.")
    digest: str
    input_type: str | None
    output_type: str | None
    diagnostics: list[DiagnosticView]


class ScriptSummary(Answer):
    digest: str
    toolset: str | None = Field(description="What it was checked against last, `name@digest`.")
    input_type: str | None
    output_type: str | None
    created_at: str


class ScriptView(ScriptSummary):
    source: str


class ScriptPage(Answer):
    data: list[ScriptSummary]
    next: str | None
