"""The filters of `GET /runs` and of `POST /runs/cancel`: read and checked in one place."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator
from starlette.requests import Request

from app.errors import invalid
from app.paging import time_parameter
from app.runs.schemas import Status
from app.schemas import LABEL_CHARS_MAX, LABEL_KEY, Body, Labels
from app.scripts.service import DIGEST
from app.toolsets.service import REFERENCE
from sandbox.journal.ids import RunId
from sandbox.store.interface import RunStatus
from sandbox.store.postgres.lists import RunFilter
from tenancy.ids import parse_id

Q_CHARS_MAX = 200
Q = "The beginning of a run's id, or words that its labels, workflow or toolset have (or beginnings of them)."
LABEL_PREFIX = "label."


class FilterBody(Body):
    """As `GET /runs` takes it, without a page; `labels: {k: v}` may also be written `label.k: v`."""

    status: Status | list[Status] | None = None
    labels: Labels = Field(default_factory=dict)
    script: str | None = None
    workflow: str | None = Field(default=None, max_length=64)
    toolset: str | None = None
    parent: str | None = None
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    q: str | None = Field(default=None, max_length=Q_CHARS_MAX)

    @model_validator(mode="before")
    @classmethod
    def _spelled_as_in_queries(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        spelled = {name: value for name, value in given.items() if str(name).startswith(LABEL_PREFIX)}
        if not spelled:
            return given
        rest = {name: value for name, value in given.items() if name not in spelled}
        labels = rest.get("labels", {})
        if isinstance(labels, dict):
            rest["labels"] = labels | {
                name.removeprefix(LABEL_PREFIX): value for name, value in spelled.items()
            }
        return rest

    def to_filter(self) -> RunFilter:
        return run_filter(
            statuses=[self.status] if isinstance(self.status, str) else self.status or (),
            labels=self.labels,
            script=self.script,
            workflow=self.workflow,
            toolset=self.toolset,
            parent=self.parent,
            from_=self.from_,
            to=self.to,
            q=self.q,
            within="filter.",
        )


def run_filter(
    *,
    statuses: Sequence[str],
    labels: Mapping[str, str],
    script: str | None,
    workflow: str | None,
    toolset: str | None,
    parent: str | None,
    from_: str | None,
    to: str | None,
    q: str | None,
    within: str = "",
) -> RunFilter:
    """Errors: ApiError, its paths beginning with `within`."""
    for name, text in ((within + "workflow", workflow), (within + "q", q)):
        if text is not None and "\0" in text:
            raise invalid(name, "invalid_value", "The character U+0000 is not allowed here.")
    return RunFilter(
        statuses=tuple(RunStatus[status.upper()] for status in statuses),
        labels=dict(labels),
        script=_pattern(within + "script", script, DIGEST),
        workflow=workflow,
        toolset=_pattern(within + "toolset", toolset, REFERENCE),
        parent=_run(within + "parent", parent),
        from_ms=time_parameter(within + "from", from_),
        to_ms=time_parameter(within + "to", to),
        q=q if q else None,
    )


def label_filters(request: Request) -> dict[str, str]:
    """`label.KEY=VALUE` of a query."""
    found = {}
    for name, value in request.query_params.multi_items():
        if name.startswith(LABEL_PREFIX):
            key = name.removeprefix(LABEL_PREFIX)
            if LABEL_KEY.fullmatch(key) is None or len(value) > LABEL_CHARS_MAX or "\0" in value:
                raise invalid(name[:80], "invalid_value", "This is no label that a run could have.")
            found[key] = value
    return found


def _pattern(name: str, value: str | None, pattern: Any) -> str | None:
    if value is not None and pattern.fullmatch(value) is None:
        raise invalid(name, "invalid_value", f"This does not have the form of a {name.rpartition('.')[2]}.")
    return value


def _run(name: str, parent: str | None) -> RunId | None:
    if parent is None:
        return None
    found = parse_id(parent)
    if found is None:
        raise invalid(name, "invalid_value", "This is no id of a run.")
    return RunId(found)
