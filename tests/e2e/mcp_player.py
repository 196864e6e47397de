"""Plays the case scripts with half of their tools served by MCP servers over HTTP.

The servers answer by idempotency key: a call that is sent again is executed once and gets the same answer.
"""

import asyncio
import json
import socket
from typing import Any, Self

import mcp_types as types
import rewind
import uvicorn
from mcp.server.lowlevel import Server

from tests.e2e.case_driver import Case, Player, Product, case_names
from tests.fixtures.mcp_server import KEY_META


def plain_cases() -> list[Case]:
    """Those whose tools fail without a code of their own: over MCP a failure is a text."""
    cases = [Case.load(name) for name in case_names()]
    return [case for case in cases if not any("code" in error for error in _errors(case))]


def _errors(case: Case) -> list[dict[str, Any]]:
    return [row["error"] for rows in case.tools["tools"].values() for row in rows if "error" in row]


class McpPlayer(Player):
    """`idempotent`: the servers say that their tools may be called again."""

    def __init__(self, stack: Product, cases: list[Case], *, idempotent: bool = False) -> None:
        super().__init__(stack, cases)
        self.by_mcp = 0
        """Calls that came over MCP, repeated ones included."""
        self.repeated = 0
        self._idempotent = idempotent
        self._running: list[tuple[uvicorn.Server, asyncio.Task[None]]] = []
        self._answers: dict[str, asyncio.Task[types.CallToolResult]] = {}

    async def __aenter__(self) -> Self:
        for case in self.cases:
            theirs = [name for name in list(case.tools["tools"])[::2] if "." in name]
            own = [self._tool(name, case) for name in case.tools["tools"] if name not in theirs]
            groups = sorted({name.partition(".")[0] for name in theirs})
            mcp = [
                {
                    "name": group,
                    "url": await self._serve(case, [name for name in theirs if name.startswith(group + ".")]),
                    "results": {name: "json" for name in theirs if name.startswith(group + ".")},
                }
                for group in groups
            ]
            await self.client.toolsets.register(case.toolset, tools=own, mcp=mcp)
            if own:
                worker = self.client.worker(tools=own, toolset=case.toolset, max_slots=16)
                await worker.__aenter__()
                self._workers.append(worker)
        return self

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        for answer in self._answers.values():
            answer.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)
        for server, _ in self._running:
            server.should_exit = server.force_exit = True
        await asyncio.gather(*(task for _, task in self._running), return_exceptions=True)

    async def _serve(self, case: Case, names: list[str]) -> str:
        """Serve these tools of one group; the server's URL."""
        listed = [
            types.Tool(
                name=name.partition(".")[2],
                input_schema=case.tools["schemas"][name]["inputSchema"],
                annotations=types.ToolAnnotations(idempotent_hint=self._idempotent),
            )
            for name in names
        ]
        group = names[0].partition(".")[0]

        async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=listed)

        async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            key = str((params.meta or {})[KEY_META])
            self.by_mcp += 1
            answer = self._answers.get(key)
            if answer is None:
                answer = asyncio.create_task(
                    self._answer(f"{group}.{params.name}", key, params.arguments or {})
                )
                self._answers[key] = answer
            else:
                self.repeated += 1
            return await asyncio.shield(answer)

        server = Server("cases", on_list_tools=list_tools, on_call_tool=call_tool)
        listener = socket.create_server(("127.0.0.1", 0))
        running = _Uvicorn(
            uvicorn.Config(server.streamable_http_app(), log_config=None, timeout_keep_alive=300)
        )
        self._running.append((running, asyncio.create_task(running.serve(sockets=[listener]))))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"

    async def _answer(self, name: str, key: str, args: dict[str, Any]) -> types.CallToolResult:
        run, _, call = key.partition("/")
        try:
            text, failed = json.dumps(await self.execute(name, run, int(call), args)), False
        except rewind.ToolError as error:
            text, failed = error.message, True
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)


class _Uvicorn(uvicorn.Server):
    """The process's signals are those of the tests."""

    def install_signal_handlers(self) -> None:
        return
