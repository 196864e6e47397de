"""Bodies and answers of `/v1/workflows`."""

from pydantic import Field

from app.schemas import Answer, NamespacedBody, Text
from app.scripts.schemas import DiagnosticView


class WorkflowBody(NamespacedBody):
    script: str = Field(
        description="Source text; or the digest of a script that the namespace of `?namespace=` knows."
    )
    toolset: str | None = Field(default=None, description="`name` (its latest now) or `name@sha256:…`.")
    description: Text = Field(default="", max_length=16_384, description="Shown to whoever may call it.")


class WorkflowVersionView(Answer):
    name: str
    digest: str = Field(description="Of this version: of its script, its toolset and its description.")
    script: str = Field(description="Digest of its script.")
    toolset: str | None = Field(description="`name@digest`, as it was when this version was registered.")
    description: str
    input_type: str | None
    output_type: str | None
    warnings: list[DiagnosticView]
    created_at: str


class WorkflowView(WorkflowVersionView):
    id: str
    updated_at: str = Field(description="When the latest version became that.")


class WorkflowSourceView(WorkflowView):
    source: str = Field(description="The script's text.")


class WorkflowPage(Answer):
    data: list[WorkflowView]
    next: str | None


class WorkflowVersionPage(Answer):
    data: list[WorkflowVersionView]
    next: str | None
