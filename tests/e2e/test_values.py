"""Results of every size and shape, of host tools and of MCP servers: the same warm, evicted and replayed."""

from pathlib import Path
from typing import Any

import psutil
import pytest
import rewind
from rewind import tool

from tests.e2e.stack import Process, Stack, eventually
from tests.fixtures.mcp_server import McpProcess, mcp_server

__all__ = ["mcp_server"]

pytestmark = pytest.mark.e2e

INLINE, MIB = 65_536, 1024 * 1024
LIMIT = 16 * MIB
QUOTES = 2
RSS_MAX = 400 * MIB
"""Of a process that has replayed 500 MiB of values: it never held them at once."""
SCRIPT = """
import { waitForSignal } from "rewind";
import { fs, host } from "rewind:tools";
const depth = (value: any): number => value !== null && typeof value === "object"
  ? 1 + depth(Object.values(value)[0]) : 0;
export default async function main(input: { calls: [string, string, any][] }) {
  const groups: any = { fs, host };
  const seen: any[] = [];
  for (const [group, name, args] of input.calls) {
    try {
      const value = await groups[group][name](args);
      seen.push(typeof value === "string" ? ["text", value.length] : ["json", depth(value)]);
    } catch (error: any) { seen.push([error.name, error.code]); }
  }
  await waitForSignal("go");
  return seen;
}
"""
SUM = """
import { waitForSignal } from "rewind";
import { host } from "rewind:tools";
export default async function main(input: { count: number, size: number }) {
  let total = 0;
  for (let n = 0; n < input.count; n++) {
    total += (await host.text({ size: input.size, n }) as string).length;
  }
  await waitForSignal("go");
  return total;
}
"""


@tool(name="host.text", output_schema={})
async def text(size: int, n: int = 0) -> str:
    return f"{n:08d}"[:size] + "x" * (size - 8)


@tool(name="host.nested", output_schema={})
async def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@tool(name="host.odd", output_schema={})
async def odd() -> Any:
    return object()


HOST = [text, nested, odd]


def cases() -> list[tuple[list[Any], list[Any]]]:
    """(call, what the script sees of its result)"""
    sizes = [0, INLINE - 1 - QUOTES, INLINE - QUOTES, INLINE + 1 - QUOTES, 10 * MIB, LIMIT - QUOTES]
    made: list[tuple[list[Any], list[Any]]] = []
    for group, name in (("host", "text"), ("fs", "big")):
        made += [([group, name, {"size": size}], ["text", size]) for size in sizes]
        made.append(([group, name, {"size": LIMIT + 1 - QUOTES}], ["ToolError", "too_large"]))
    made += [
        (["host", "nested", {"levels": 200}], ["json", 200]),
        (["host", "nested", {"levels": 201}], ["ToolError", "invalid_result"]),
        (["host", "odd", {}], ["ToolError", "invalid_result"]),
        (["fs", "get_text", {"text": "[" * 200 + "]" * 200}], ["json", 200]),
        (["fs", "get_text", {"text": "[" * 201 + "]" * 201}], ["text", 402]),
        (["fs", "get_text", {"text": "{nope"}], ["text", 5]),
        (["fs", "get_text", {"text": '{"a": [1]}'}], ["json", 2]),
    ]
    return made


def client(stack: Stack) -> rewind.AsyncRewind:
    return rewind.AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme", max_retries=40)


async def until_waiting(sdk: rewind.AsyncRewind, run: str, within_s: float) -> None:
    async def waits() -> bool:
        found = await sdk.runs.get(run, wait="5s", until="blocked")
        assert found.status == "active", found.raw
        return any(waiting["kind"] == "signal" for waiting in found.waiting_for)

    await eventually(waits, within_s=within_s, what="the wait for a signal")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("warm_runs", ["100", "0"], ids=["warm", "evicted"])
async def test_results_at_their_limits(
    database_url: str, s3_url: str, tmp_path: Path, mcp_server: McpProcess, warm_runs: str
) -> None:
    environ = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8", "REWIND_WARM_RUNS": warm_runs}
    calls = [call for call, _ in cases()]
    async with Stack(database_url, s3_url, tmp_path, environ=environ) as stack, client(stack) as sdk:
        await sdk.toolsets.register("t", HOST, mcp=[{"name": "fs", "url": mcp_server.url}])
        async with sdk.worker(toolset="t", tools=HOST):
            runs = [
                (await sdk.runs.start(script=SCRIPT, toolset="t", input={"calls": calls})).id
                for _ in range(2)
            ]
            for run in runs:
                await until_waiting(sdk, run, 300)
            await sdk.runs.signal(runs[0], "go")
            first = await sdk.runs.wait(runs[0], timeout_s=120)
            await stack.kill_worker(stack.workers[0])  # the other one is replayed by a new process
            await sdk.runs.signal(runs[1], "go")
            second = await sdk.runs.wait(runs[1], timeout_s=120)
    for ended in (first, second):
        assert ended.status == "completed", (ended.raw["error"], stack.logs())
        wrong = [
            (call, saw, seen) for (call, seen), saw in zip(cases(), ended.output, strict=True) if saw != seen
        ]
        assert wrong == []


def peak_bytes(process: Process) -> int:
    """The most memory that the worker or one of its children ever had."""
    parent = psutil.Process(process.pid)
    peaks = []
    for one in (parent, *parent.children(recursive=True)):
        status = Path(f"/proc/{one.pid}/status").read_text()
        peaks.append(int(status.split("VmHWM:")[1].split()[0]) * 1024)
    return max(peaks)


@pytest.mark.timeout(600)
async def test_a_run_with_500_values_of_a_mebibyte_replays_within_the_heap(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    count = 500
    async with Stack(database_url, s3_url, tmp_path) as stack, client(stack) as sdk:
        await sdk.toolsets.register("t", HOST)
        async with sdk.worker(toolset="t", tools=HOST):
            given = {"count": count, "size": MIB}
            run = (await sdk.runs.start(script=SUM, toolset="t", input=given)).id
            await until_waiting(sdk, run, 400)
            await stack.kill_worker(stack.workers[0])
            await stack.ready()
            await sdk.runs.signal(run, "go")
            ended = await sdk.runs.wait(run, timeout_s=120)
        assert ended.status == "completed", (ended.raw["error"], stack.logs())
        assert ended.output == count * MIB
        blobs = await stack.database.row("select count(*) as n from blobs")
        assert blobs["n"] == count
        peak = peak_bytes(stack.workers[0])
        print(f"peak of a process that replayed it: {peak / MIB:.0f} MiB")
        assert peak < RSS_MAX
