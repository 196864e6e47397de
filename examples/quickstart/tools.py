"""The host tool that the script may call: a Python function of this process.

Its type hints become the schemas that scripts are held to. What it closed is written to a file.
"""

import json
from dataclasses import dataclass

from rewind import ToolContext, tool

from examples.quickstart.executions import FOLDER, executed

CLOSED = FOLDER / "closed.jsonl"


@dataclass(frozen=True)
class Closed:
    number: int
    reason: str


@tool(name="close_issue")
def close_issue(repo: str, number: int, reason: str, ctx: ToolContext) -> Closed:
    """Close an issue. The key of the call makes sure that it happens once, whatever is retried."""
    executed("close_issue", ctx.idempotency_key)
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
