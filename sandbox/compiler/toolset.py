"""A toolset as the checker sees it: the declarations that scripts are checked against, and where to look things up."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.compiler.declarations import START, WORKFLOWS, declarations
from sandbox.compiler.ts_text import line
from sandbox.compiler.typed_tools import TypedTool, typed_tools

SHAPE_CHARS_MAX = 360
"""Of one type, where a diagnostic shows what a tool takes or gives."""
TOOLS_SHOWN = 12
CACHED_MAX = 64
"""Toolsets whose declarations a worker keeps: each is some hundred KB."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """`key` names the declarations: the same key, the same text."""

    key: str
    declarations: str
    tools: dict[str, TypedTool] = field(default_factory=dict)
    """By their names in scripts."""
    workflows: dict[str, TypedTool] = field(default_factory=dict)
    """Likewise: `workflows.onboard`, and `workflows.onboard.start`, which takes the same."""
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Names of types in the declarations: the tool, and `takes` or `gives`."""
    http: bool = False
    """Whether it has the tool `http`."""

    @property
    def groups(self) -> dict[str, list[str]]:
        """Members of each group, in order; tools without a group are their own."""
        found: dict[str, list[str]] = {}
        for name, tool in self.tools.items():
            found.setdefault(tool.group or name, []).append(tool.member)
        return found

    def called(self, name: str | None) -> TypedTool | None:
        """The tool or the workflow of this name."""
        return None if name is None else self.tools.get(name) or self.workflows.get(name)

    def args(self, name: str) -> str:
        """The type of what the tool takes, on one line."""
        found = self.called(name)
        assert found is not None, name
        return _short(line(found.args.type))

    def usage(self, name: str) -> str:
        """One line: how the tool is called."""
        tool = self.tools[name]
        mark = "?" if tool.optional else ""
        return f"`{name}(args{mark}: {self.args(name)})`"

    def shape(self, alias: str) -> str | None:
        """One sentence about a type that a message of the compiler names."""
        known = self.aliases.get(alias)
        if known is None:
            return None
        name, verb = known
        tool = self.called(name)
        assert tool is not None, name
        schema = tool.args if verb == "takes" else tool.result
        return None if schema is None else f"`{spoken(name)}` {verb} {_short(line(schema.type))}"


def spoken(name: str) -> str:
    """What a tool is called in a script: a workflow is imported by its own name."""
    return name.removeprefix(WORKFLOWS)


def toolset_of(key: str, tools: Sequence[Mapping[str, Any]], *, http: bool = False) -> Toolset:
    """Declare pinned tools (`{name, input_schema, output_schema?, …}`)."""
    every = {tool.name: tool for tool in typed_tools(tools, [])}
    typed = {name: tool for name, tool in every.items() if not name.startswith(WORKFLOWS)}
    workflows = {
        name: every.get(name.removesuffix(START), tool)
        for name, tool in every.items()
        if name.startswith(WORKFLOWS)
    }
    aliases = {}
    for tool in (*typed.values(), *workflows.values()):
        aliases[tool.args.name] = (tool.name, "takes")
        if tool.result is not None:
            aliases[tool.result.name] = (tool.name, "gives")
    return Toolset(key, declarations(tools, http=http), typed, workflows, aliases, http)


NO_TOOLS = toolset_of("", ())


class ToolsetCache:
    """Declared toolsets by key; versions never change, so they are only ever dropped for room."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Toolset] = OrderedDict()

    def get(self, key: str) -> Toolset | None:
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return known

    def put(self, toolset: Toolset) -> None:
        self._known[toolset.key] = toolset
        while len(self._known) > CACHED_MAX:
            self._known.popitem(last=False)


def _short(text: str) -> str:
    return text if len(text) <= SHAPE_CHARS_MAX else text[:SHAPE_CHARS_MAX] + "…"
