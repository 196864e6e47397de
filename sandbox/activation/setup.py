"""The tools of a run, from its pinned toolset."""

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.activation.drafts import PinnedTool
from sandbox.journal.entries import ToolPolicy


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
        )
        for tool in tools
        if not tool.get("disabled")
    }
