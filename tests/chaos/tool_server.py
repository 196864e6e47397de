"""The world outside: it does what tools are for, and writes each effect down on disk before it answers.

`python -m tests.chaos.tool_server PORT LOG`. It serves MCP tools at `/mcp`, and `/effect` for the host tools, whose
own processes are killed. Nobody kills this one: its log is the truth about what happened how often.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.e2e.stack import pause

KEY_META = "codes.rewind/idempotency-key"
UNREPEATABLE = frozenset({"host.once", "host.refuse", "world.once"})


class Ledger:
    """Every effect has a number; one that is asked for again under its key is not numbered anew, if it may be repeated."""

    def __init__(self, log: Path) -> None:
        self._file = log.open("a", buffering=1)
        self._numbers: dict[str, int] = {}
        self._count = 0

    def note(self, tool: str, key: str, step: int) -> int:
        """Write the effect down; its number."""
        number = None if tool in UNREPEATABLE else self._numbers.get(key)
        if number is None:
            self._count += 1
            number = self._numbers[key] = self._count
        self._file.write(json.dumps({"tool": tool, "key": key, "step": step, "number": number}) + "\n")
        return number


def build(ledger: Ledger) -> Any:
    server = MCPServer("world")

    @server.custom_route("/effect", methods=["POST"])
    async def effect(request: Request) -> Response:
        asked = await request.json()
        number = ledger.note(asked["tool"], asked["key"], asked["step"])
        return JSONResponse({"number": number})

    async def serve(tool: str, step: int, before: int, after: int, context: Any) -> dict[str, int]:
        key = str((context.request_context.meta or {})[KEY_META])
        await pause(before / 1000)
        number = ledger.note(tool, key, step)
        await pause(after / 1000)
        return {"step": step, "number": number}

    @server.tool()
    async def once(step: int, before: int, after: int, ctx: Context) -> dict[str, int]:
        return await serve("world.once", step, before, after, ctx)

    @server.tool(annotations=ToolAnnotations(idempotent_hint=True))
    async def again(step: int, before: int, after: int, ctx: Context) -> dict[str, int]:
        return await serve("world.again", step, before, after, ctx)

    return server


def main(port: int, log: Path) -> None:
    import uvicorn

    uvicorn.run(build(Ledger(log)).streamable_http_app(), host="127.0.0.1", port=port, log_level="critical")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
