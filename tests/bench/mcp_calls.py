"""Calls of an MCP server's tool: what they cost the dispatcher's process, beside the bare client library."""

import tempfile
import time
from pathlib import Path

from mcp import Client

from tests.bench.report import quantile
from tests.bench.session import Phase, Session
from tests.fixtures.mcp_server import McpProcess

TOOLSET = "bench-mcp"
CALLS_PER_RUN = 20
SCRIPT = """\
import { fs } from "rewind:tools";

export default async function main(input: { calls: number }) {
  for (let i = 0; i < input.calls; i++) await fs.add({ a: i, b: 1 });
  return input.calls;
}
"""


async def mcp_calls(session: Session) -> None:
    """The same calls one after the other, first by the bare client, then by scripts."""
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as folder:
        server = McpProcess(Path(folder) / "calls.jsonl").start()
        try:
            await _measure(session, server.url)
        finally:
            server.kill()


async def _measure(session: Session, url: str) -> None:
    driver, report = session.driver, session.report
    runs = session.scaled(25, 5)
    raw_ms = await _raw_cpu_ms(url, runs * CALLS_PER_RUN)
    await driver.client.toolsets.register(TOOLSET, mcp=[{"name": "fs", "url": url}])

    async def once() -> None:
        run = await driver.client.runs.start(
            script=SCRIPT, toolset=TOOLSET, input={"calls": CALLS_PER_RUN}, wait="30s"
        )
        await driver.ended(run)

    await once()
    durations, usage = await session.measured(session.repeated(runs, once))
    calls = CALLS_PER_RUN * len(durations)
    cost = usage.per_step(calls)
    serve_ms = usage.cpu_s["serve"] * 1000 / calls
    report.add("MCP call, CPU of serve (dispatcher, API)", serve_ms, "ms")
    report.add("MCP call, CPU of the bare mcp client", raw_ms, "ms")
    report.add("MCP call, CPU of serve : bare client", serve_ms / max(raw_ms, 0.01), "×")
    report.add("MCP call, CPU of all processes", cost["cpu_ms_per_step"], "ms")
    report.add("MCP call, p50", quantile(durations, 0.5) / CALLS_PER_RUN, "ms")
    report.add("writing commits per MCP call", cost["commits_per_step"], "")
    session.detail("mcp", calls=calls, raw_cpu_ms=round(raw_ms, 3), **usage.to_json(), per_call=cost)


async def _raw_cpu_ms(url: str, calls: int) -> float:
    async with Client(url) as client:
        await client.call_tool("add", {"a": 1, "b": 1})
        began = time.process_time()
        for i in range(calls):
            await client.call_tool("add", {"a": i, "b": 1})
        return (time.process_time() - began) * 1000 / calls


PHASES = (Phase("MCP calls", mcp_calls, 25, 8),)
