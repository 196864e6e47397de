"""Tools of MCP servers: from what a server lists to pinned tools. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from app.dispatcher.endpoints import ServerSpec, header_problem, url_problem
from app.errors import join_path
from app.toolsets.mending import mended
from app.toolsets.names import NAME_CHARS_MAX, group_problem, to_identifier
from app.toolsets.policies import check_policies, pinned_pace, pinned_retry
from app.toolsets.schemas import McpBody, SecretRef
from sandbox.compiler.json_schema import SchemaError, check_schema
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Json
from tenancy.secrets import NAME as SECRET_NAME

if TYPE_CHECKING:
    import mcp_types as types

TIMEOUT_MS = 300_000
"""Of a call to a server, unless the script gives its own."""
TOOLS_MAX = 2_000
DESCRIPTION_CHARS_MAX = 16_384
MIRRORED_DEPTH_MAX = 50
UNUSABLE = "codes.rewind/unusable"
"""In the `_meta` of a listed tool: why its server's version of the protocol forbids to use it."""
NO_MEMBERS = frozenset({"then", "__proto__"})
"""A group with such a member would be taken for a promise, or change what a group is."""


def check_server(body: McpBody, path: str, errors: list[FieldError]) -> None:
    """What can be said of a server before it is asked."""

    def wrong(field: str, code: str, message: str) -> None:
        errors.append(FieldError(f"{path}.{field}", code, f"{message}."))

    if (problem := group_problem(body.name)) is not None:
        wrong("name", "invalid_name", problem)
    if (problem := url_problem(body.url)) is not None:
        wrong("url", "invalid_url", problem)
    seen: set[str] = set()
    for name, value in body.headers.items():
        given: Json = {"secret": value.secret} if isinstance(value, SecretRef) else value
        problem = header_problem(name, given)
        if name.lower() in seen or (name.lower() == "authorization" and body.auth is not None):
            problem = "this header is given twice"
        seen.add(name.lower())
        if problem is not None:
            wrong(f"headers.{name[:80]}", "invalid_header", problem)
    _check_auth(body, wrong)
    check_policies(body, path, errors)
    for name in spec_of(body).secrets:
        if SECRET_NAME.fullmatch(name) is None:
            wrong("auth", "invalid_name", f"{name[:80]!r} cannot be the name of a secret")
    if isinstance(body.approval, bool | None) or _is_names(body.approval):
        return
    wrong(
        "approval", "invalid_value", "this is true, or a list of the tools whose calls wait for an approval"
    )


def _check_auth(body: McpBody, wrong: Callable[[str, str, str], None]) -> None:
    if body.auth is None:
        return
    if (body.auth.secret is None) == (body.auth.oauth is None):
        wrong(
            "auth", "invalid_value", "this is `{secret}`, or `{oauth: {token_url, client_id, client_secret}}`"
        )
    elif body.auth.oauth is not None and (problem := url_problem(body.auth.oauth.token_url)) is not None:
        wrong("auth.oauth.token_url", "invalid_url", problem)


def spec_of(body: McpBody) -> ServerSpec:
    headers: dict[str, Any] = {
        name: {"secret": value.secret} if isinstance(value, SecretRef) else value
        for name, value in body.headers.items()
    }
    auth: str | dict[str, Any] | None = None if body.auth is None else body.auth.secret
    if body.auth is not None and (oauth := body.auth.oauth) is not None:
        auth = {
            "token_url": oauth.token_url,
            "client_id": oauth.client_id,
            "client_secret": oauth.client_secret.secret,
            "scope": oauth.scope,
        }
    return ServerSpec(body.url, auth, headers)


def usable_tools(body: McpBody, listed: "Sequence[types.Tool]", warnings: list[str]) -> "list[types.Tool]":
    """The listed tools that scripts can call, by name, so that a server's order makes no new version."""
    found: dict[str, types.Tool] = {}
    for tool in listed:
        unusable = not tool.name or len(tool.name) > NAME_CHARS_MAX or "\0" in tool.name
        if unusable or to_identifier(tool.name) in NO_MEMBERS:
            warnings.append(f"{body.name}: the tool {tool.name[:80]!r} is left out: scripts cannot call it.")
        elif tool.name in found:
            warnings.append(f"{body.name}: the tool {tool.name!r} is listed twice; the first is taken.")
        else:
            found[tool.name] = tool
    return [found[name] for name in sorted(found)]


def pinned_tool(body: McpBody, tool: "types.Tool", name: str, warnings: list[str]) -> dict[str, Any]:
    """`name` is what scripts call it, `server.tool`."""
    hints = tool.annotations
    shape = _named(body.results, body.name, tool.name, name)
    pinned: dict[str, Any] = {
        "name": name,
        "original": tool.name,
        "kind": "mcp",
        "server": body.name,
        "description": (tool.description or tool.title or "").replace("\0", "")[:DESCRIPTION_CHARS_MAX],
        "input_schema": tool.input_schema,
        "approval": _gated(body, tool.name, name) or None,
        "idempotent": hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
        "timeout_ms": TIMEOUT_MS if body.timeout is None else body.timeout,
        "retry": pinned_retry(body.retry),
        **pinned_pace(body, body.name),
    }
    if tool.execution is not None and tool.execution.task_support == "required":
        pinned["task"] = True
    if shape is not None:
        pinned["results"] = shape
    if shape == "text":
        pinned["output_schema"] = {"type": "string"}
    elif shape == "content":
        pinned["output_schema"] = {"type": "array"}
    elif tool.output_schema is not None:
        pinned["output_schema"] = tool.output_schema
    if (wrong := (tool.meta or {}).get(UNUSABLE)) is not None:
        pinned["disabled"] = wrong
        warnings.append(f"{body.name}: the tool {tool.name!r} is disabled: {wrong}.")
    _check(pinned, body, warnings)
    return pinned


def mirrored(schema: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], str]:
    """Which arguments a server wants to see in headers too (`x-mcp-header`), by the path of their properties."""
    found: dict[tuple[str, ...], str] = {}
    properties = (
        schema.get("properties") if isinstance(schema, dict) and len(path) < MIRRORED_DEPTH_MAX else None
    )
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and isinstance(header := part.get("x-mcp-header"), str):
            found[(*path, name)] = header
        found |= mirrored(part, (*path, name))
    return found


def check_named(body: McpBody, named: Iterable[tuple[str, str]], path: str, errors: list[FieldError]) -> None:
    """What `approval` and `results` name must be there: a mistyped approval would let calls through."""
    known = {alias for original, name in named for alias in _aliases(body.name, original, name)}
    wanted = list(body.approval) if _is_names(body.approval) else []
    for field, names in (("approval", wanted), ("results", list(body.results))):
        for name in names:
            if name not in known:
                message = f"The server {body.name!r} has no tool {name[:80]!r}."
                errors.append(FieldError(join_path(f"{path}.{field}", name[:80]), "unknown_tool", message))


def _aliases(server: str, original: str, name: str) -> set[str]:
    """How a toolset may name a tool of a server: as listed or as in scripts, with the server or without."""
    return {original, f"{server}.{original}", name, name.partition(".")[2]}


def _named(table: dict[str, Any], server: str, original: str, name: str) -> Any:
    for alias in (name, f"{server}.{original}", original, name.partition(".")[2]):
        if alias in table:
            return table[alias]
    return None


def _gated(body: McpBody, original: str, name: str) -> bool:
    if _is_names(body.approval):
        return bool(_aliases(body.name, original, name) & set(body.approval))
    return bool(body.approval)


def _is_names(approval: Any) -> bool:
    return isinstance(approval, list) and all(isinstance(name, str) for name in approval)


def _check(pinned: dict[str, Any], body: McpBody, warnings: list[str]) -> None:
    """A tool with a schema that is none, or too much of one, is disabled; the other tools are not touched by it."""
    for field in ("input_schema", "output_schema"):
        if field not in pinned:
            continue
        try:
            said = check_schema(pinned[field])
        except SchemaError as error:
            found, said = _as_meant(pinned[field])
            if not said:
                reason = f"{join_path(field, error.path)}: {error.message}"
                pinned.setdefault("disabled", reason)
                warnings.append(f"{body.name}: the tool {pinned['original']!r} is disabled: {reason}.")
            pinned[field] = found
        warnings += [f"{pinned['name']}: {field}: {warning}" for warning in said]


def _as_meant(schema: Json) -> tuple[Json, list[str]]:
    """A schema that is none by a detail, read as it is meant, and what to say of it; nothing if it is still none."""
    found, note = mended(schema)
    if note is None:
        return {}, []
    try:
        return found, [f"it is no JSON Schema: {note}.", *check_schema(found)]
    except SchemaError:
        return {}, []
