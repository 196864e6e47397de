"""From what a customer declares to a pinned toolset, and back to what callers are shown. Pure.

A pinned definition is `{"tools": [tool, …]}` and a tool is
`{name, original, kind: "host", description, input_schema, output_schema?, approval, idempotent, timeout_ms,
retry}`, where `approval` is null, true or `{expires_ms}`, and `retry` is null or
`{attempts, backoff_ms, max_ms}`. Its digest is that of its canonical JSON: the toolset's name is not in it.
"""

import re
from dataclasses import dataclass
from typing import Any

from app.durations import duration_ms
from app.errors import ToolsetInvalid, invalid, join_path
from app.toolsets.json_schema import SchemaError, ValueValidator, check_schema
from app.toolsets.names import name_problem, script_names, split_name
from app.toolsets.schemas import ToolBody, ToolsetBody
from sandbox.journal.canonical import canonical_text, sha256_hex
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Digest, Json

DEFINITION_BYTES_MAX = 4 * 1024 * 1024
NOT_YET = ("mcp", "http", "workflows", "secrets")
TOOL_NOT_YET = ("queue_timeout", "concurrency", "rate")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""U+0000 in canonical JSON, and not a backslash before `u0000`."""
Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pinned:
    """A definition with its digest, and what the author should know about it."""

    definition: Definition
    digest: Digest
    warnings: list[str]


def pin(body: ToolsetBody) -> Pinned:
    """Check a declared toolset and fix it.

    Errors: ApiError for what is not available; ToolsetInvalid with every wrong tool.
    """
    for field in NOT_YET:
        if getattr(body, field) is not None:
            raise invalid(field, "not_available", "This deployment does not have this yet: leave it out.")
    errors: list[FieldError] = []
    warnings: list[str] = []
    for index, tool in enumerate(body.tools):
        _check_tool(tool, f"tools[{index}]", errors, warnings)
    _check_names(body.tools, errors)
    if errors:
        first = errors[0]
        raise ToolsetInvalid(f"{first.path}: {first.message}", errors=errors)
    names = script_names([tool.name for tool in body.tools])
    definition = {"tools": [_pinned(tool, name) for tool, name in zip(body.tools, names, strict=True)]}
    text = canonical_text(definition, depth_max=256)
    if len(text) > DEFINITION_BYTES_MAX:
        raise ToolsetInvalid(
            f"A toolset has at most {DEFINITION_BYTES_MAX:,} bytes; this one has {len(text):,}."
        )
    if _NUL.search(text):
        raise ToolsetInvalid("A toolset must not hold the character U+0000.")
    return Pinned(definition, Digest(f"sha256:{sha256_hex(text)}"), warnings)


def _check_tool(tool: ToolBody, path: str, errors: list[FieldError], warnings: list[str]) -> None:
    for field in TOOL_NOT_YET:
        if getattr(tool, field) is not None:
            raise invalid(
                f"{path}.{field}", "not_available", "This deployment does not have this yet: leave it out."
            )
    problem = name_problem(tool.name)
    if problem is not None:
        errors.append(FieldError(f"{path}.name", "invalid_name", f"{problem}."))
    for field in ("input_schema", "output_schema"):
        schema = getattr(tool, field)
        if schema is None and field == "output_schema":
            continue
        try:
            warnings += [f"{tool.name}: {field}: {warning}" for warning in check_schema(schema)]
        except SchemaError as error:
            at = join_path(f"{path}.{field}", error.path)
            errors.append(FieldError(at, "invalid_schema", error.message))
    try:
        _approval(tool.approval)
    except ValueError as error:
        errors.append(FieldError(f"{path}.approval", "invalid_value", str(error)))


def _check_names(tools: list[ToolBody], errors: list[FieldError]) -> None:
    seen: dict[str, int] = {}
    groups: dict[str, int] = {}
    singles: dict[str, int] = {}
    for index, tool in enumerate(tools):
        if tool.name in seen:
            message = f"tools[{seen[tool.name]}] has this name already."
            errors.append(FieldError(f"tools[{index}].name", "duplicate_name", message))
        seen.setdefault(tool.name, index)
        group, name = split_name(tool.name)
        if group is not None:
            groups.setdefault(group, index)
        else:
            singles.setdefault(name, index)
    for name in groups.keys() & singles.keys():
        message = f"`{name}` is also a group: tools[{groups[name]}]."
        errors.append(FieldError(f"tools[{singles[name]}].name", "duplicate_name", message))


def _approval(approval: Any) -> Json:
    if approval is None or approval is False:
        return None
    if approval is True:
        return True
    if isinstance(approval, dict) and set(approval) == {"expires"}:
        return {"expires_ms": duration_ms(approval["expires"])}
    raise ValueError("This is true, or an object with the one field `expires`, a duration.")


def _pinned(tool: ToolBody, name: str) -> Definition:
    retry = tool.retry
    pinned: Definition = {
        "name": name,
        "original": tool.name,
        "kind": "host",
        "description": tool.description,
        "input_schema": tool.input_schema,
        "approval": _approval(tool.approval),
        "idempotent": tool.idempotent,
        "timeout_ms": tool.timeout,
        "retry": None
        if retry is None
        else {"attempts": retry.attempts, "backoff_ms": retry.backoff, "max_ms": retry.max},
    }
    if tool.output_schema is not None:
        pinned["output_schema"] = tool.output_schema
    return pinned


# -- Reading a pinned definition


def tool_view(tool: Definition) -> Definition:
    """What callers see of a tool."""
    shown = {
        "name": tool["name"],
        "original": tool["original"],
        "kind": tool["kind"],
        "approval": tool["approval"],
        "idempotent": tool["idempotent"],
        "description": tool["description"],
        "input_schema": tool["input_schema"],
    }
    if "output_schema" in tool:
        shown["output_schema"] = tool["output_schema"]
    return shown


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """What handing out and settling a task need to know about its tool."""

    name: str
    original: str
    input: ValueValidator
    output: ValueValidator | None
    retry: dict[str, int] | None


def tools_of(definition: Definition) -> dict[str, PinnedTool]:
    """The pinned tools by their names in scripts."""
    found = {}
    for tool in definition["tools"]:
        output = ValueValidator(tool["output_schema"]) if "output_schema" in tool else None
        found[tool["name"]] = PinnedTool(
            tool["name"], tool["original"], ValueValidator(tool["input_schema"]), output, tool["retry"]
        )
    return found


def retry_after_ms(retry: dict[str, int], attempt: int) -> int | None:
    """Return the back-off after this failed attempt, or None when it was the last."""
    if attempt >= retry["attempts"]:
        return None
    backoff_ms: int = retry["backoff_ms"] << min(attempt - 1, 40)
    return min(backoff_ms, retry["max_ms"])
