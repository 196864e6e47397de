"""Pinned tools with the types of what they take and return, from which every text about them is made."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.compiler.schema_types import Budget, Direction, SchemaTypes
from sandbox.compiler.ts_names import TypeNames, pascal
from sandbox.compiler.ts_text import doc_lines
from sandbox.compiler.ts_types import (
    ANY_OBJECT,
    UNKNOWN,
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
UNCHECKED = "The shape of the result isn't checked."


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

    def type_names(self) -> set[str]:
        """Names of all types that are declared for it."""
        schemas = [self.args] + ([] if self.result is None else [self.result])
        return {name for schema in schemas for name in (schema.name, *schema.aliases)}


def typed_tools(tools: Iterable[Mapping[str, Any]], warnings: list[str]) -> list[TypedTool]:
    """Compile the schemas of all tools that are not disabled, with names that are unique among them.

    `http.request` is not among them: its declarations are always the same.

    Errors: none; `warnings` gets tool and path of what could not be typed as its schema says.
    Limits: those of schema_types; what is over them is typed loosely.
    """
    names, budget = TypeNames(), Budget()
    return [
        _typed_tool(tool, names, budget, warnings)
        for tool in tools
        if not tool.get("disabled") and tool.get("kind") != "http"
    ]


def _typed_tool(tool: Mapping[str, Any], names: TypeNames, budget: Budget, warnings: list[str]) -> TypedTool:
    name = str(tool["name"])
    args = _typed_schema(tool["input_schema"], "in", name, names, budget, warnings)
    output = tool.get("output_schema")
    result = None if output is None else _typed_schema(output, "out", name, names, budget, warnings)
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
    schema: Any, direction: Direction, tool: str, names: TypeNames, budget: Budget, warnings: list[str]
) -> TypedSchema:
    prefix = pascal(tool)
    name = names.fresh(f"{prefix}{'Args' if direction == 'in' else 'Result'}")
    made = SchemaTypes(schema, direction, lambda part: names.fresh(f"{prefix}{pascal(part)}"), budget)
    found = made.compile(name)
    if direction == "in" and found == UNKNOWN:
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
