"""A script that calls a tool of a server of every version of MCP, on the real processes."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from rewind import AsyncRewind

from tests.e2e.stack import Stack
from tests.fixtures.mcp_versions import MODERN, VersionServer
from tests.fixtures.web_server import WebServer

pytestmark = pytest.mark.e2e

ALLOW = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}
SERVERS = {
    "march": VersionServer("2025-03-26"),
    "batching": VersionServer("2025-03-26", batches=True, sse=True),
    "june": VersionServer("2025-06-18", sse=True),
    "november": VersionServer("2025-11-25", sessions=False),
    "july": VersionServer(MODERN, sse=True),
}
SCRIPT = """import { batching, july, june, march, november } from "rewind:tools";

export default async function main() {
  const found = [];
  for (const server of [march, batching, june, november, july]) found.push(await server.greet({ name: "Ada" }));
  return found;
}
"""


@pytest.mark.timeout(180)
async def test_a_script_over_every_version(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        webs = {
            name: await running.enter_async_context(WebServer(server)) for name, server in SERVERS.items()
        }
        stack = await running.enter_async_context(Stack(database_url, s3_url, tmp_path, environ=ALLOW))
        client = await running.enter_async_context(
            AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="versions")
        )
        mcp = [{"name": name, "url": f"{web.url}/mcp"} for name, web in webs.items()]
        pinned = await client.toolsets.register("versions", mcp=mcp)
        assert pinned.warnings == []
        run = await client.runs.start(script=SCRIPT, toolset="versions")
        ended = await client.runs.wait(run.id, timeout_s=60)
        assert ended.status == "completed", ended.raw
        assert ended.output == [f"{server.version} greets Ada" for server in SERVERS.values()]
    for number, (name, server) in enumerate(SERVERS.items(), start=1):
        assert (name, server.faults) == (name, [])
        assert server.keys == [f"{run.id}/{number}"]
