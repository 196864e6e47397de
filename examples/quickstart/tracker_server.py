"""An issue tracker as an MCP server, in a process of its own: `python -m examples.quickstart.tracker_server`.

It prints its address, serves streamable HTTP on a free port of this machine, and ends when its standard input does.
"""

import asyncio
import json
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from examples.quickstart.executions import executed

BUNDLED = Path(__file__).with_name("issues.json")
KEY_META = "codes.rewind/idempotency-key"
PAGE = 4
READ_ONLY = ToolAnnotations(read_only_hint=True)
server = MCPServer("tracker", log_level="WARNING")


@dataclass(frozen=True)
class Issue:
    number: int
    title: str
    updated_at: str
    labels: list[str]


@dataclass(frozen=True)
class IssuePage:
    issues: list[Issue]
    more: bool


@dataclass(frozen=True)
class Thread:
    comments: list[str]


@server.tool(annotations=READ_ONLY)
def list_issues(repo: str, ctx: Context[Any], page: int = 1) -> IssuePage:
    """Open issues of a repository, oldest number first, four on a page."""
    note("tracker.list_issues", ctx)
    issues = issues_of(repo)
    start = (page - 1) * PAGE
    found = [
        Issue(issue["number"], issue["title"], issue["updated_at"], issue["labels"])
        for issue in issues[start : start + PAGE]
    ]
    return IssuePage(issues=found, more=start + PAGE < len(issues))


@server.tool(annotations=READ_ONLY)
def read_comments(repo: str, number: int, ctx: Context[Any]) -> Thread:
    """Comments on an issue."""
    note("tracker.read_comments", ctx)
    for issue in issues_of(repo):
        if issue["number"] == number:
            return Thread(comments=issue["comments"])
    raise ValueError(f"{repo} has no issue {number}")


def note(tool: str, ctx: Context[Any]) -> None:
    executed(tool, str((ctx.request_context.meta or {}).get(KEY_META)))


def issues_of(repo: str) -> list[dict[str, Any]]:
    repositories: dict[str, list[dict[str, Any]]] = json.loads(BUNDLED.read_text(encoding="utf-8"))
    if repo not in repositories:
        raise ValueError(f"there is no repository {repo}; there are {', '.join(sorted(repositories))}")
    return repositories[repo]


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning", timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)

    def end_with_parent() -> None:
        sys.stdin.read()
        serving.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    asyncio.run(serving.serve(sockets=[listener]))


if __name__ == "__main__":
    main()
