"""The tools of a run, from its pinned toolset."""

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.activation.drafts import PinnedTool
from sandbox.activation.pace import Pace
from sandbox.journal.entries import ToolPolicy
from sandbox.store.interface import Route

DISPATCHED = frozenset({"mcp", "http", "workflow"})
"""Kinds of tools that Rewind calls itself."""


def pinned_tools(tools: Iterable[Mapping[str, Any]]) -> dict[str, PinnedTool]:
    """By the name that scripts use; disabled tools are left out."""
    return {
        tool["name"]: PinnedTool(
            name=tool["name"],
            policy=ToolPolicy(
                approval=tool.get("approval") or None,
                idempotent=bool(tool.get("idempotent")),
                timeout_ms=tool.get("timeout_ms"),
                retry=tool.get("retry"),
            ),
            pace=Pace.of_tool(tool),
            by_method=tool.get("kind") == "http",
            route=Route.DISPATCHER if tool.get("kind") in DISPATCHED else Route.HOST,
        )
        for tool in tools
        if not tool.get("disabled")
    }
