"""A workflow as tools of a toolset: `workflows.NAME`, which waits for its run, and `workflows.NAME.start`. Pure.

Pinned tools have `kind: "workflow"` and `workflow: {name, digest}`: the version that calls start runs of, whatever
is registered under the name later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.workflows.repository import WorkflowVersion
from sandbox.compiler.declarations import START, WORKFLOWS

KIND = "workflow"
_STARTED = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "required": ["id"],
}


@dataclass(frozen=True, slots=True)
class WorkflowPin:
    """Which run a call starts. `awaited`: the call ends when that run ends."""

    name: str
    digest: str
    awaited: bool


def workflow_tools(version: WorkflowVersion) -> list[dict[str, Any]]:
    """The tools that a version of a workflow is to scripts."""
    name = f"{WORKFLOWS}{version.name}"
    pinned: dict[str, Any] = {
        "name": name,
        "original": version.name,
        "kind": KIND,
        "workflow": {"name": version.name, "digest": version.digest},
        "description": version.description,
        "input_schema": _object(version.checked.input_schema),
        "output_schema": _object(version.checked.output_schema),
        "approval": None,
        "idempotent": True,  # the same call starts the same run
        "timeout_ms": None,
        "retry": None,
    }
    if not pinned["output_schema"]:
        del pinned["output_schema"]  # it may be anything
    begun = {
        **pinned,
        "name": f"{name}{START}",
        "original": f"{version.name}{START}",
        "output_schema": _STARTED,
    }
    return [pinned, begun]


def pin_of(tool: Mapping[str, Any]) -> WorkflowPin | None:
    """What a pinned tool starts; None: it is no workflow."""
    if tool["kind"] != KIND:
        return None
    workflow = tool["workflow"]
    return WorkflowPin(workflow["name"], workflow["digest"], not str(tool["name"]).endswith(START))


def both_of(tool: str) -> tuple[str, ...]:
    """The names of both tools of a workflow, given one; of another tool itself."""
    if not tool.startswith(WORKFLOWS):
        return (tool,)
    name = tool.removesuffix(START)
    return name, f"{name}{START}"


def _object(schema: Any) -> Any:
    """Schemas of tools are objects."""
    if schema is True:
        return {}
    return {"not": {}} if schema is False else schema
