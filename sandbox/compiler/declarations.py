"""A pinned toolset as TypeScript: the declarations that scripts are checked against.

The reader of these texts is a language model: everything that it must know to call a tool stands at the tool.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.compiler.schema_types import Direction, SchemaTypes
from sandbox.compiler.ts_names import TypeNames, pascal
from sandbox.compiler.ts_text import block, comment, doc_lines, key
from sandbox.compiler.ts_types import (
    ANY,
    ANY_OBJECT,
    Alias,
    Literal,
    Object,
    Type,
    Union,
    Word,
    aliases_in,
    substituted,
)

DESCRIPTION_CHARS_MAX = 4_000
"""Of a tool's description."""
TEXT_CHARS_MAX = 8 * 1024 * 1024
"""Of the declarations of a toolset; tools beyond it are declared without the types of what they take and return."""
UNCHECKED = "The shape of the result isn't checked."
WORKFLOWS = "workflows."

_HEADER = """// What this toolset offers to scripts. Made by Rewind from the tools' schemas.
"""
_OPTIONS = '  import type { CallOptions, Duration } from "rewind";\n'
_HTTP = """  export interface HttpInit {
    headers?: Record<string, string>;
    query?: Record<string, string | number | boolean | null | undefined | (string | number | boolean)[]>;
    /** Body: one of `json`, `text`, `base64`. */
    json?: unknown;
    text?: string;
    base64?: string;
    timeout?: Duration;
  }
  export interface HttpRequest extends HttpInit {
    method?: string;
    url: string;
  }
  export interface HttpAnswer {
    status: number;
    /** Whether the status is 200 to 299. */
    ok: boolean;
    headers: Record<string, string>;
    json: any;
    text: string;
    /** Of a body that is no text. */
    base64?: string;
  }
  export interface HttpTools {
    /** Answers of every status are results; no answer at all throws ToolError `unreachable`. */
    request(request: HttpRequest, options?: CallOptions): Promise<HttpAnswer>;
    get(url: string, init?: HttpInit): Promise<HttpAnswer>;
    post(url: string, init?: HttpInit): Promise<HttpAnswer>;
    put(url: string, init?: HttpInit): Promise<HttpAnswer>;
    patch(url: string, init?: HttpInit): Promise<HttpAnswer>;
    delete(url: string, init?: HttpInit): Promise<HttpAnswer>;
  }
  export const http: HttpTools;
"""


@dataclass(frozen=True, slots=True)
class TypedSchema:
    """A schema's type under its name, with the types that it refers to, in the order in which they are met."""

    name: str
    type: Type
    aliases: Mapping[str, Type]
    docs: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class TypedTool:
    """A tool with the types of what it takes and returns; `result` None: that isn't checked."""

    name: str
    description: tuple[str, ...]
    summary: str
    """The description on one line, as its author wrote it."""
    gated: bool
    """Its calls wait for an approval."""
    args: TypedSchema
    result: TypedSchema | None
    optional: bool
    """Whether it may be called without arguments."""

    @property
    def group(self) -> str | None:
        head, dot, _ = self.name.partition(".")
        return head if dot else None

    @property
    def member(self) -> str:
        return self.name.partition(".")[2] or self.name


@dataclass(frozen=True, slots=True)
class Declarations:
    """`warnings` name tool and path of what could not be typed as its schema says."""

    text: str
    warnings: tuple[str, ...]


def declarations(tools: Sequence[Mapping[str, Any]], *, http: bool = False) -> str:
    """The text of `rewind-tools.d.ts` for pinned tools (`app/toolsets/definition.py` says what they have)."""
    return declare(tools, http=http).text


def declare(tools: Sequence[Mapping[str, Any]], *, http: bool = False) -> Declarations:
    """Declare `rewind:tools` and `rewind:workflows`; whatever the schemas are, the text compiles.

    Limits: TEXT_CHARS_MAX, and those of schema_types.
    """
    warnings: list[str] = []
    typed = typed_tools(tools, warnings)
    names = TypeNames()
    parts = [_HEADER, 'declare module "rewind:tools" {\n', _OPTIONS, "  export {};\n"]
    parts += _module([tool for tool in typed if not tool.name.startswith(WORKFLOWS)], names)
    if http:
        parts.append(_HTTP)
    parts += ["}\n", 'declare module "rewind:workflows" {\n', _OPTIONS]
    parts += _workflows([tool for tool in typed if tool.name.startswith(WORKFLOWS)])
    parts.append("}\n")
    return Declarations("".join(parts), tuple(warnings))


def typed_tools(tools: Iterable[Mapping[str, Any]], warnings: list[str]) -> list[TypedTool]:
    """Compile the schemas of all tools that are not disabled, with names that are unique among them."""
    names = TypeNames()
    return [typed_tool(tool, names, warnings) for tool in tools if not tool.get("disabled")]


def typed_tool(tool: Mapping[str, Any], names: TypeNames, warnings: list[str]) -> TypedTool:
    name = str(tool["name"])
    args = _typed_schema(tool["input_schema"], "in", name, names, warnings)
    output = tool.get("output_schema")
    result = None if output is None else _typed_schema(output, "out", name, names, warnings)
    return TypedTool(
        name=name,
        description=_description(tool, result),
        summary=" ".join(" ".join(_said(tool)).split()),
        gated=bool(tool.get("approval")),
        args=args,
        result=result,
        optional=_is_optional(args.type, args.aliases),
    )


def _typed_schema(
    schema: Any, direction: Direction, tool: str, names: TypeNames, warnings: list[str]
) -> TypedSchema:
    prefix = pascal(tool)
    name = names.fresh(f"{prefix}{'Args' if direction == 'in' else 'Result'}")
    made = SchemaTypes(schema, direction, lambda part: names.fresh(f"{prefix}{pascal(part)}"))
    found = made.compile(name)
    if direction == "in" and found == Word("unknown"):
        found = ANY_OBJECT
    field = "input_schema" if direction == "in" else "output_schema"
    warnings += [f"{tool}: {field}: {warning}." for warning in made.warnings]
    small = _small(made.aliases)
    kept = {alias: substituted(body, small) for alias, body in made.aliases.items() if alias not in small}
    found = substituted(found, small)
    return TypedSchema(name, found, _reachable(found, kept), made.docs)


def _small(aliases: Mapping[str, Type]) -> dict[str, Type]:
    """Aliases that are shorter written out."""
    small: dict[str, Type] = {}
    for name in aliases:
        end = _end_of(name, aliases)
        if isinstance(end, Word | Literal | Alias):
            small[name] = end
    return small


def _end_of(name: str, aliases: Mapping[str, Type]) -> Type:
    """What an alias of an alias comes to."""
    found, seen = aliases[name], {name}
    while isinstance(found, Alias) and found.name in aliases and found.name not in seen:
        seen.add(found.name)
        found = aliases[found.name]
    return found


def _reachable(root: Type, aliases: Mapping[str, Type]) -> dict[str, Type]:
    found: dict[str, Type] = {}
    waiting = [root]
    while waiting:
        for name in aliases_in(waiting.pop(0)):
            if name in aliases and name not in found:
                found[name] = aliases[name]
                waiting.append(aliases[name])
    return found


def _is_optional(args: Type, aliases: Mapping[str, Type]) -> bool:
    """Whether `{}`, which a call without arguments sends, is of this type."""
    while isinstance(args, Alias) and args.name in aliases:
        args = aliases[args.name]
    if isinstance(args, Union):
        return any(_is_optional(member, aliases) for member in args.members)
    return isinstance(args, Object) and all(part.optional for part in args.properties)


def _description(tool: Mapping[str, Any], result: TypedSchema | None) -> tuple[str, ...]:
    lines = _said(tool)
    original = str(tool.get("original") or "")
    member = str(tool["name"]).rpartition(".")[2]
    if original and original not in (tool["name"], member):
        lines += doc_lines(f"Its owner calls it {original!r}.", DESCRIPTION_CHARS_MAX)
    if tool.get("approval"):
        lines.append("Each call waits until a person approves it; a refusal throws ApprovalDeniedError.")
    if result is None:
        lines.append(UNCHECKED)
    return tuple(lines)


def _said(tool: Mapping[str, Any]) -> list[str]:
    return doc_lines(str(tool.get("description") or ""), DESCRIPTION_CHARS_MAX)


def _module(tools: Sequence[TypedTool], names: TypeNames) -> list[str]:
    parts: list[str] = []
    groups: dict[str, list[TypedTool]] = {}
    for tool in tools:
        parts += _types(tool)
        if tool.group is None:
            parts.append(f"{comment(tool.description, '  ')}  export function {signature(tool)};\n")
        else:
            groups.setdefault(tool.group, []).append(tool)
    for group, members in groups.items():
        interface = names.fresh(f"{pascal(group)}Tools")
        parts.append(f"  export interface {interface} {{\n")
        parts += [f"{comment(tool.description, '    ')}    {signature(tool)};\n" for tool in members]
        parts.append(f"  }}\n  export const {group}: {interface};\n")
    return parts


def _types(tool: TypedTool) -> list[str]:
    parts = []
    for schema in (tool.args, tool.result):
        if schema is None:
            continue
        for name, body in ((schema.name, schema.type), *schema.aliases.items()):
            doc = comment(schema.docs.get(name, ()), "  ")
            parts.append(f"{doc}  export type {name} = {block(body, '  ')};\n")
    return parts


def signature(tool: TypedTool) -> str:
    result = "any" if tool.result is None else tool.result.name
    given = f"args{'?' if tool.optional else ''}: {tool.args.name}"
    return (
        f"{key(tool.member) if tool.group else tool.name}({given}, options?: CallOptions): Promise<{result}>"
    )


def _workflows(tools: Sequence[TypedTool]) -> list[str]:
    parts: list[str] = ["  export {};\n"]
    for tool in tools:
        name = tool.member
        result = "any" if tool.result is None else tool.result.name
        given = f"input{'?' if tool.optional else ''}: {tool.args.name}"
        parts += _types(tool)
        parts.append(f"{comment(tool.description, '  ')}  export const {name}: {{\n")
        parts.append(f"    ({given}, options?: CallOptions): Promise<{result}>;\n")
        parts.append("    /** Starts the run and does not wait for it. */\n")
        parts.append(f"    start({given}): Promise<{{ id: string }}>;\n  }};\n")
    return parts


__all__ = ["ANY", "Declarations", "TypedTool", "declarations", "declare", "typed_tools"]
