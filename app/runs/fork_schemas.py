"""Bodies and answers of `POST /v1/runs/{run}/fork`."""

from pydantic import Field

from app.durations import DurationMs
from app.runs.schemas import WAIT_MS_MAX, ForkPlan, RunView
from app.schemas import Answer, Labels, NamespacedBody

SEQ_MAX = 2**31 - 1


class ForkBody(NamespacedBody):
    script: str | None = Field(
        default=None, description="Source text, or the digest of a known script; absent: the parent's."
    )
    at: int | None = Field(
        default=None,
        ge=0,
        le=SEQ_MAX,
        strict=True,
        description="Seq of a parent's entry: nothing is matched from there on, and the call whose outcome stands "
        "there is made anew.",
    )
    wait: DurationMs = Field(
        default=0, le=WAIT_MS_MAX, description="Answer when the fork has ended, at most 60 s."
    )
    ttl: DurationMs | None = Field(
        default=None, gt=0, description="The fork is cancelled after this; 30 days."
    )
    labels: Labels | None = Field(default=None, description="Absent: the parent's.")
    dry_run: bool = Field(default=False, strict=True, description="Only say what would be reused.")


class ForkView(RunView):
    fork: ForkPlan | None = Field(
        description="Null: not known within 30 s. `GET /v1/runs/{run}` has it when the fork has been made."
    )


class DryForkView(Answer):
    fork: ForkPlan
