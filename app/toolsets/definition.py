"""From what a customer declares to a pinned toolset, and back to what callers are shown. Pure.

A pinned definition is `{"tools": [tool, …]}` and a tool is
`{name, original, kind: "host", description, input_schema, output_schema?, approval, idempotent, timeout_ms,
retry}`, where `approval` is null, true or `{expires_ms}`, and `retry` is null or
`{attempts, backoff_ms, max_ms}`. Tools of MCP servers have `kind: "mcp"`, `server`, and `results` if pinned.
With `http: true` among the tools is `http.request`, of `kind: "http"`.
`disabled`, on a tool of a server that scripts cannot use, says why. Workflows are two tools each, of kind
`workflow` (see workflow_tools.py).
The digest is that of the canonical JSON, with the servers' addresses and references to secrets where there are
servers; the toolset's name is not in it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from app.durations import duration_ms
from app.errors import ToolsetInvalid, join_path
from app.toolsets.http_tool import check_http, http_spec, pinned_http
from app.toolsets.mcp_tools import (
    TOOLS_MAX,
    check_named,
    check_server,
    mirrored,
    pinned_tool,
    spec_of,
    usable_tools,
)
from app.toolsets.names import name_problem, script_names, split_name
from app.toolsets.policies import check_policies, pinned_pace, pinned_retry
from app.toolsets.schemas import McpBody, ToolBody, ToolsetBody
from app.toolsets.workflow_tools import WorkflowPin, pin_of
from sandbox.compiler.json_schema import SchemaError, ValueValidator, check_schema
from sandbox.compiler.schema_limits import NUL
from sandbox.compiler.typed_tools import typed_tools
from sandbox.journal.canonical import CanonicalError, canonical_text, sha256_hex
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Digest, Json

if TYPE_CHECKING:
    import mcp_types as types

DEFINITION_BYTES_MAX = 4 * 1024 * 1024
Definition = dict[str, Any]
Shape = Literal["text", "json", "content"]
"""What a toolset may pin a tool's results to be."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """A definition with its digest, and what the author should know about it."""

    definition: Definition
    servers: Definition
    """What the dispatcher needs to reach the servers: `{}` without any."""
    digest: Digest
    warnings: list[str]


def check(body: ToolsetBody) -> list[str]:
    """Check what is declared, before any server is asked; answer warnings.

    Errors: ApiError for what is not available; ToolsetInvalid with every wrong tool and server.
    """
    errors: list[FieldError] = []
    warnings: list[str] = []
    for index, tool in enumerate(body.tools):
        _check_tool(tool, f"tools[{index}]", errors, warnings)
    _check_names(body.tools, errors)
    _check_servers(body, errors)
    if body.http is not None:
        check_http(body.http, errors)
        check_policies(body.http, "http", errors)
        _check_approval(body.http.approval, "http.approval", errors)
    refuse(errors)
    return warnings


def refuse(errors: list[FieldError]) -> None:
    """ToolsetInvalid when there is anything wrong."""
    if errors:
        first = errors[0]
        raise ToolsetInvalid(f"{first.path}: {first.message}", errors=errors)


def pin(
    body: ToolsetBody,
    listed: "Sequence[Sequence[types.Tool]]",
    warnings: list[str],
    *,
    workflows: Sequence[Definition] = (),
    all_named: bool = True,
) -> Pinned:
    """Fix a checked toolset; `listed` is what each of its servers lists, `workflows` are pinned already.

    `all_named`: what `approval` and `results` name must be there.

    Errors: ToolsetInvalid.
    """
    offered = [
        (server, tool)
        for server, tools in zip(body.mcp, listed, strict=True)
        for tool in usable_tools(server, tools, warnings)
    ]
    originals = [tool.name for tool in body.tools]
    theirs = [f"{server.name}.{tool.name}" for server, tool in offered]
    names = script_names(originals + theirs)
    own, theirs_named = names[: len(originals)], names[len(originals) :]
    _check_offered(body, list(zip(offered, theirs_named, strict=True)), set(own), all_named=all_named)
    tools = [_pinned(tool, name) for tool, name in zip(body.tools, own, strict=True)]
    tools += [
        pinned_tool(server, tool, name, warnings)
        for (server, tool), name in zip(offered, theirs_named, strict=True)
    ]
    tools += workflows
    if body.http is not None:
        tools.append(pinned_http(body.http, _approval(body.http.approval)))
    typed_tools(tools, warnings)
    definition: Definition = {"tools": tools} | ({} if body.http is None else {"http": True})
    servers: Definition = {}
    if body.mcp or body.http is not None:
        servers = {
            "mcp": {server.name: spec_of(server).to_json() for server in body.mcp},
            "fallback": body.secrets != "namespace",
        }
    if body.http is not None:
        servers["http"] = http_spec(body.http).to_json()
    return Pinned(definition, servers, _digest(definition, servers), warnings)


def merged(before: Definition, after: Pinned, names: Collection[str]) -> Pinned:
    """`before`, with those of its tools that `names` says as they are in `after`.

    Errors: ToolsetInvalid.
    """
    new = {tool["name"]: tool for tool in after.definition["tools"]}
    old = {tool["name"]: tool for tool in before["tools"]}
    tools = [new.get(name) if name in names else tool for name, tool in old.items()]
    tools += [tool for name, tool in new.items() if name not in old and name in names]
    definition: Definition = {**after.definition, "tools": [tool for tool in tools if tool is not None]}
    return Pinned(definition, after.servers, _digest(definition, after.servers), after.warnings)


def changes_between(before: Definition, after: Definition) -> list[Definition]:
    """Return what a newer look at the servers found: `{tool, server, change, fields, before, after}`, by name."""
    old = {tool["name"]: tool for tool in before["tools"]}
    new = {tool["name"]: tool for tool in after["tools"]}
    changes = []
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was == now:
            continue
        one = now or was or {}
        fields = sorted(
            field
            for field in {*(was or {}), *(now or {})}
            if was is not None and now is not None and was.get(field) != now.get(field)
        )
        changes.append(
            {
                "tool": name,
                "server": one.get("server"),
                "change": "added" if was is None else "removed" if now is None else "changed",
                "fields": fields,
                "before": None if was is None else tool_view(was),
                "after": None if now is None else tool_view(now),
            }
        )
    return changes


def _digest(definition: Definition, servers: Definition) -> Digest:
    text = _definition_text(definition)
    whole = text if not servers else canonical_text({**definition, **servers}, depth_max=256)
    return Digest(f"sha256:{sha256_hex(whole)}")


def _definition_text(definition: Definition) -> bytes:
    try:
        text = canonical_text(definition, depth_max=256)
    except CanonicalError as error:
        raise ToolsetInvalid(f"{error.path}: {error.message}") from None
    if len(text) > DEFINITION_BYTES_MAX:
        raise ToolsetInvalid(
            f"A toolset has at most {DEFINITION_BYTES_MAX:,} bytes; this one has {len(text):,}."
        )
    if NUL.search(text):
        raise ToolsetInvalid("A toolset must not hold the character U+0000.")
    return text


def _check_servers(body: ToolsetBody, errors: list[FieldError]) -> None:
    singles = {tool.name for tool in body.tools if "." not in tool.name}
    seen: set[str] = set()
    for index, server in enumerate(body.mcp):
        check_server(server, f"mcp[{index}]", errors)
        if server.name in seen:
            message = "Another server of this toolset has this name."
            errors.append(FieldError(f"mcp[{index}].name", "duplicate_name", message))
        if server.name in singles:
            message = f"`{server.name}` is also a tool."
            errors.append(FieldError(f"mcp[{index}].name", "duplicate_name", message))
        seen.add(server.name)


def _check_offered(
    body: ToolsetBody,
    offered: "Sequence[tuple[tuple[McpBody, types.Tool], str]]",
    own: set[str],
    *,
    all_named: bool,
) -> None:
    errors: list[FieldError] = []
    for index, server in enumerate(body.mcp):
        named = [(tool.name, name) for (owner, tool), name in offered if owner is server]
        if len(named) > TOOLS_MAX:
            message = f"The server {server.name!r} lists more than {TOOLS_MAX:,} tools."
            errors.append(FieldError(f"mcp[{index}]", "too_many_tools", message))
        for original, name in named:
            if name in own:
                message = f"The server's tool {original!r} is also declared here as the host tool `{name}`."
                errors.append(FieldError(f"mcp[{index}].name", "duplicate_name", message))
        if all_named:
            check_named(server, named, f"mcp[{index}]", errors)
    refuse(errors)


def _check_tool(tool: ToolBody, path: str, errors: list[FieldError], warnings: list[str]) -> None:
    check_policies(tool, path, errors)
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
    _check_approval(tool.approval, f"{path}.approval", errors)


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


def _check_approval(approval: Any, path: str, errors: list[FieldError]) -> None:
    try:
        _approval(approval)
    except ValueError as error:
        errors.append(FieldError(path, "invalid_value", str(error)))


def _approval(approval: Any) -> Json:
    if approval is None or approval is False:
        return None
    if approval is True:
        return True
    if isinstance(approval, dict) and set(approval) == {"expires"}:
        return {"expires_ms": duration_ms(approval["expires"])}
    raise ValueError("This is true, or an object with the one field `expires`, a duration.")


def _pinned(tool: ToolBody, name: str) -> Definition:
    pinned: Definition = {
        "name": name,
        "original": tool.name,
        "kind": "host",
        "description": tool.description,
        "input_schema": tool.input_schema,
        "approval": _approval(tool.approval),
        "idempotent": tool.idempotent,
        "timeout_ms": tool.timeout,
        "retry": pinned_retry(tool.retry),
        **pinned_pace(tool),
    }
    if tool.output_schema is not None:
        pinned["output_schema"] = tool.output_schema
    return pinned


# -- Reading a pinned definition


def approval_view(approval: Json) -> Json:
    """As it may be registered again: `{expires}` is a duration, here in ms."""
    return {"expires": approval["expires_ms"]} if isinstance(approval, dict) else approval


def tool_view(tool: Definition, disabled: str | None = None) -> Definition:
    """What callers see of a tool. `disabled`: why it cannot be called."""
    shown = {
        "name": tool["name"],
        "original": tool["original"],
        "kind": tool["kind"],
        "approval": approval_view(tool["approval"]),
        "idempotent": tool["idempotent"],
        "description": tool["description"],
        "input_schema": tool["input_schema"],
    }
    for field in ("output_schema", "disabled", "workflow"):
        if field in tool:
            shown[field] = tool[field]
    if disabled is not None:
        shown.setdefault("disabled", disabled)
    return shown


@dataclass(frozen=True, slots=True)
class PinnedTool:
    """What handing out and settling a task need to know about its tool."""

    name: str
    original: str
    input: ValueValidator
    output: ValueValidator | None
    retry: dict[str, int] | None
    idempotent: bool = False
    server: str | None = None
    """Of an MCP tool, which of the toolset's servers has it; `http` of the tool of that name."""
    results: Shape | None = None
    paced: bool = False
    """Its calls have limits that they share."""
    workflow: WorkflowPin | None = None
    mirrors: dict[tuple[str, ...], str] | None = None
    """Arguments that its server wants in headers too."""
    task: bool = False
    """Its server runs it as a task of the protocol only."""


def tools_of(definition: Definition) -> dict[str, PinnedTool]:
    """The pinned tools by their names in scripts."""
    found = {}
    for tool in definition["tools"]:
        if "disabled" in tool:
            continue
        output = ValueValidator(tool["output_schema"]) if "output_schema" in tool else None
        found[tool["name"]] = PinnedTool(
            tool["name"],
            tool["original"],
            ValueValidator(tool["input_schema"]),
            output,
            tool["retry"],
            tool["idempotent"],
            tool.get("server"),
            tool.get("results"),
            paced="pace" in tool,
            workflow=pin_of(tool),
            mirrors=mirrored(tool["input_schema"]) if tool["kind"] == "mcp" else None,
            task="task" in tool,
        )
    return found


def retry_after_ms(retry: dict[str, int], attempt: int) -> int | None:
    """Return the back-off after this failed attempt, or None when it was the last."""
    if attempt >= retry["attempts"]:
        return None
    backoff_ms: int = retry["backoff_ms"] << min(attempt - 1, 40)
    return min(backoff_ms, retry["max_ms"])
