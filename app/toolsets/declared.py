"""Toolsets as models and checkers read them: declarations, prompts, search. Pure but for the cache of it.

Versions never change, so what is made of one is kept for the next who asks.
"""

import difflib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal

from app.errors import invalid
from app.toolsets.definition import Definition, approval_view
from app.toolsets.search import ToolIndex
from sandbox.compiler.declarations import declared
from sandbox.compiler.prompt import compact, render_prompt
from sandbox.compiler.typed_tools import TypedTool, typed_tools

CACHE_MAX = 64
"""Versions of toolsets that are kept compiled."""
Format = Literal["dts", "prompt"]


class DeclaredToolset:
    """One version. Tools that are disabled are no part of it."""

    def __init__(self, definition: Definition) -> None:
        self._tools: list[dict[str, Any]] = [
            tool for tool in definition["tools"] if "disabled" not in tool and tool["kind"] != "http"
        ]
        self._http = bool(definition.get("http"))
        self._typed = {tool.name: tool for tool in typed_tools(self._tools, [])}
        self._index = ToolIndex(self._tools)

    def declarations(self, form: Format, *, only: Sequence[str] | None, budget: int | None) -> str:
        """The text. ApiError for a tool in `only` that there is not."""
        chosen = self._tools if only is None else self._chosen(only)
        http = self._http and (only is None or "http" in only)
        typed = [self._typed[tool["name"]] for tool in chosen]
        return declared(typed, http=http) if form == "dts" else render_prompt(typed, http=http, budget=budget)

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        by_name = {tool["name"]: tool for tool in self._tools}
        return [self._found(by_name[name], self._typed[name]) for name in self._index.search(query, limit)]

    def _found(self, tool: dict[str, Any], typed: TypedTool) -> dict[str, Any]:
        return {
            "name": tool["name"],
            "description": tool["description"],
            "declaration": compact(typed),
            "kind": tool["kind"],
            "approval": approval_view(tool["approval"]),
        }

    def _chosen(self, only: Sequence[str]) -> list[dict[str, Any]]:
        """Tools by their names in scripts, by those of their owners, or by their group."""
        known = {alias for tool in self._tools for alias in _aliases(tool)} | (
            {"http"} if self._http else set()
        )
        for name in only:
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise invalid("tools", "unknown_tool", f"The toolset has no tool {name[:200]!r}.{hint}")
        wanted = set(only)
        return [tool for tool in self._tools if wanted & _aliases(tool)]


def _aliases(tool: dict[str, Any]) -> set[str]:
    group, dot, _ = tool["name"].partition(".")
    return {tool["name"], tool["original"]} | ({group} if dot else set())


class DeclaredCache:
    """The least recently used version makes room. Asked from several threads: two may make the same one."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str], DeclaredToolset] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str, str], make: Callable[[], DeclaredToolset]) -> DeclaredToolset:
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = make()
        with self._lock:
            self._kept[key] = found
            self._kept.move_to_end(key)
            if len(self._kept) > CACHE_MAX:
                self._kept.popitem(last=False)
        return found
