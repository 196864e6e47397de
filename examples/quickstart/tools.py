"""The tools that the script may call: Python functions of this process.

Their type hints become the schemas that scripts are held to. They work on a small bundled tracker, and write what
was closed to a file of their own.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewind import ToolContext, ToolError, tool

BUNDLED = Path(__file__).with_name("issues.json")
CLOSED = Path(os.environ.get("REWIND_DATA", ".rewind")) / "quickstart" / "closed.jsonl"
PAGE = 4


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
class Comment:
    text: str


@dataclass(frozen=True)
class Closed:
    number: int
    reason: str


@tool(name="tracker.list_issues", idempotent=True)
def list_issues(repo: str, page: int = 1) -> IssuePage:
    """Open issues of a repository, oldest number first, four on a page."""
    issues = _issues(repo)
    start = (page - 1) * PAGE
    found = [_shown(issue) for issue in issues[start : start + PAGE]]
    return IssuePage(issues=found, more=start + PAGE < len(issues))


@tool(name="tracker.read_comments", idempotent=True)
def read_comments(repo: str, number: int) -> list[Comment]:
    """Comments on an issue."""
    return [Comment(text=text) for text in _issue(repo, number)["comments"]]


@tool(name="tracker.close_issue")
def close_issue(repo: str, number: int, reason: str, ctx: ToolContext) -> Closed:
    """Close an issue. The key of the call makes sure that it happens once, whatever is retried."""
    _issue(repo, number)
    CLOSED.parent.mkdir(parents=True, exist_ok=True)
    with CLOSED.open("a+", encoding="utf-8") as file:
        file.seek(0)
        if not any(json.loads(line)["key"] == ctx.idempotency_key for line in file):
            record = {
                "key": ctx.idempotency_key,
                "run": ctx.run,
                "repo": repo,
                "number": number,
                "reason": reason,
            }
            file.write(json.dumps(record) + "\n")
    return Closed(number=number, reason=reason)


TOOLS = [list_issues, read_comments, close_issue]


def _issues(repo: str) -> list[dict[str, Any]]:
    repositories: dict[str, list[dict[str, Any]]] = json.loads(BUNDLED.read_text(encoding="utf-8"))
    if repo not in repositories:
        raise ToolError(
            f"there is no repository {repo}", code="unknown_repository", data={"known": sorted(repositories)}
        )
    return repositories[repo]


def _shown(issue: dict[str, Any]) -> Issue:
    return Issue(
        number=issue["number"], title=issue["title"], updated_at=issue["updated_at"], labels=issue["labels"]
    )


def _issue(repo: str, number: int) -> dict[str, Any]:
    for issue in _issues(repo):
        if issue["number"] == number:
            return issue
    raise ToolError(f"{repo} has no issue {number}", code="unknown_issue")
