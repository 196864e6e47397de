"""MCP servers on the real processes: scripts over them, servers that restart, a dispatcher that is killed."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rewind
from mcp import Client

from tests.e2e.stack import Stack, eventually
from tests.fixtures.everything import everything_server
from tests.fixtures.mcp_server import McpProcess, mcp_server, session_server

__all__ = ["everything_server", "mcp_server", "session_server"]

pytestmark = pytest.mark.e2e
ALLOW = {"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}

RESULTS = """
import { fs } from "rewind:tools";

export default async function main(input: { calls: [string, any][] }) {
  const seen: any[] = [];
  for (const [tool, args] of input.calls) {
    try { seen.push(await (fs as any)[tool](args)); }
    catch (error: any) { seen.push([error.name, error.code, error.retryable]); }
  }
  return seen;
}
"""
PARALLEL = """
import { fs } from "rewind:tools";

// In lanes, each call of another length: whenever the dispatcher dies, some calls are answered and some in the air.
export default async function main(input: { tool: string, count: number, lanes: number, ms: number }) {
  const tool = (fs as any)[input.tool];
  const outcomes: any[] = [];
  let next = 0;
  await Promise.all(Array.from({ length: input.lanes }, async () => {
    while (next < input.count) {
      const ms = input.ms + 61 * (next++ % 5);
      try { outcomes.push(["result", await tool({ ms })]); }
      catch (error: any) { outcomes.push([error.name, error.code ?? null]); }
    }
  }));
  return outcomes;
}
"""


def client(stack: Stack) -> rewind.AsyncRewind:
    return rewind.AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme", max_retries=40)


async def ended(sdk: rewind.AsyncRewind, run: str) -> rewind.Run:
    async def look() -> rewind.Run | None:
        found = await sdk.runs.get(run, wait="5s")
        return found if found.status != "active" else None

    found: rewind.Run = await eventually(look, within_s=120, what=f"the end of run {run}")
    return found


async def test_what_results_are_to_a_script(
    database_url: str, s3_url: str, tmp_path: Path, mcp_server: McpProcess
) -> None:
    inline, limit = 65_534, 16 * 1024 * 1024 - 2  # two quotes around them
    calls: list[list[Any]] = [
        ["add", {"a": 1, "b": 2}], ["get_text", {"text": '{"a": [1, null]}'}], ["get_text", {"text": "{nope"}],
        ["get_text", {"text": "12"}], ["get_text", {"text": ""}], ["parts", {}], ["fail", {"message": "boo"}],
        ["big", {"size": inline}], ["big", {"size": inline + 1}], ["big", {"size": limit + 1}],
    ]  # fmt: skip
    async with Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack, client(stack) as sdk:
        await sdk.secrets.put("files", "the-organizations")
        await sdk.secrets.put("files", "of-acme", namespace="acme")
        assert [found.name async for found in sdk.secrets.list(namespace="acme")] == ["files"]
        server = {"name": "fs", "url": mcp_server.url, "auth": {"secret": "files"}}
        await sdk.toolsets.register("t", mcp=[server])
        run = await sdk.runs.start(script=RESULTS, toolset="t", input={"calls": calls})
        await ended(sdk, run.id)
        journal = list(await sdk.runs.journal(run.id))
        seen = [
            entry["result"].get("value", entry["result"]["bytes"])
            if "result" in entry
            else (entry["error"]["name"], entry["error"]["code"])
            for entry in journal
            if entry["type"] == "tool_call_completed"
        ]
        assert seen[:7] == [
            {"result": 3}, {"a": [1, None]}, "{nope", "12", "", "one\ntwo", ("ToolError", "tool_failed"),
        ]  # fmt: skip
        assert seen[7:] == ["x" * inline, inline + 3, ("ToolError", "too_large")]
        assert {call["authorization"] for call in mcp_server.calls()} == {"Bearer of-acme"}
        keys = {call["key"] for call in mcp_server.calls()}
        assert keys == {f"{run.id}/{number}" for number in range(1, len(calls) + 1)}


async def test_a_restarted_server_is_reconnected(
    database_url: str, s3_url: str, tmp_path: Path, session_server: McpProcess
) -> None:
    calls = {"calls": [["add", {"a": 1, "b": 1}]]}
    async with Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack, client(stack) as sdk:
        await sdk.toolsets.register("t", mcp=[{"name": "fs", "url": session_server.url}])

        async def once() -> Any:
            run = await sdk.runs.start(script=RESULTS, toolset="t", input=calls)
            return (await ended(sdk, run.id)).output

        assert await once() == [{"result": 2}]
        session_server.restart()
        assert await once() == [{"result": 2}]
        session_server.kill()
        assert await once() == [["ToolError", "unreachable", True]]
        session_server.start()
        assert await once() == [{"result": 2}]
        assert max(session_server.counts("add").values()) == 1


@pytest.mark.timeout(600)
async def test_a_killed_dispatcher_sends_no_begun_call_twice(
    database_url: str, s3_url: str, tmp_path: Path, mcp_server: McpProcess
) -> None:
    """Counted at the server: lost calls end with OutcomeUnknownError, those that may be repeated with a result."""
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\nseed {seed}")
    rng = random.Random(seed)
    count = 60
    async with Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack, client(stack) as sdk:
        await sdk.toolsets.register("t", mcp=[{"name": "fs", "url": mcp_server.url}])
        runs = {
            tool: await sdk.runs.start(
                script=PARALLEL, toolset="t", input={"tool": tool, "count": count, "lanes": 5, "ms": 20}
            )
            for tool in ("slow", "once")
        }
        for _ in range(3):
            at = len(mcp_server.calls()) + rng.randrange(8, 25)

            async def so_many(at: int = at) -> bool:
                return len(mcp_server.calls()) >= at

            await eventually(so_many, what=f"{at} calls at the server")
            stack.serve.kill()
            await stack.database.advance(30_001)  # the leases of the dead dispatcher run out
            stack.start_serve()
            await stack.ready()
        slow = await ended(sdk, runs["slow"].id)
        once = await ended(sdk, runs["once"].id)
    assert max(mcp_server.counts("slow").values()) == 1
    outcomes = Counter(name for name, _ in slow.output)
    print(f"outcomes of calls that may not be repeated: {dict(outcomes)}")
    assert outcomes["result"] + outcomes["OutcomeUnknownError"] == count
    assert outcomes["OutcomeUnknownError"] > 0, "no kill hit a call in the air"
    assert outcomes["result"] > count // 3, "no call was answered between the kills"
    assert [name for name, _ in once.output] == ["result"] * count
    assert max(mcp_server.counts("once").values()) > 1, "no call was repeated: the kills hit nothing"
    assert len({number for _, number in once.output}) == count  # each key had its own answer


ARGUMENTS = {
    "echo": {"message": "hello"}, "get-sum": {"a": 2, "b": 3}, "get-structured-content": {"location": "New York"},
    "trigger-long-running-operation": {"duration": 0.2, "steps": 2}, "get-annotated-message": {"messageType": "error"},
    "get-resource-links": {"count": 2}, "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
    "simulate-research-query": {"topic": "x"},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain,x", "outputType": "resource"},
}  # fmt: skip
"""For the tools that need some."""


async def test_every_tool_of_the_reference_server_is_called_from_a_script(
    database_url: str, s3_url: str, tmp_path: Path, everything_server: str
) -> None:
    """All that it lists to a client that cannot be asked back; each has a result."""
    script = """
    import { everything } from "rewind:tools";
    export default async function main(input: { calls: [string, any][] }) {
      const seen: Record<string, any> = {};
      for (const [tool, args] of input.calls) {
        try { seen[tool] = { result: await (everything as any)[tool](args) }; }
        catch (error: any) { seen[tool] = { error: error.code, message: error.message }; }
      }
      return seen;
    }
    """
    async with Stack(database_url, s3_url, tmp_path, environ=ALLOW) as stack, client(stack) as sdk:
        pinned = await sdk.toolsets.register("e", mcp=[{"name": "everything", "url": everything_server}])
        tools = {tool["name"].partition(".")[2]: tool["original"] for tool in pinned.raw["tools"]}
        async with Client(everything_server) as bare:
            listed = {tool.name for tool in (await bare.list_tools()).tools}
        assert set(tools.values()) == listed
        assert (len(tools), pinned.warnings) == (13, [])
        calls = [[name, ARGUMENTS.get(original, {})] for name, original in tools.items()]
        run = await sdk.runs.start(script=script, toolset="e", input={"calls": calls})
        done = await ended(sdk, run.id)
        assert done.status == "completed", done.raw
        seen = done.output
        assert set(seen) == set(tools)
        print({name: found.get("error", "ok") for name, found in seen.items()})
        assert seen["echo"]["result"] == "Echo: hello"
        assert "5" in seen["get_sum"]["result"]
        assert set(seen["get_structured_content"]["result"]) == {"temperature", "conditions", "humidity"}
        assert any(part["type"] == "image" for part in seen["get_tiny_image"]["result"])
        assert any(part["type"] == "resource_link" for part in seen["get_resource_links"]["result"])
        assert any(part["type"] == "resource" for part in seen["get_resource_reference"]["result"])
        assert "# Research Report" in seen["simulate_research_query"]["result"]  # which runs as a task only
        assert {name: found for name, found in seen.items() if "error" in found} == {}
        journal = list(await sdk.runs.journal(run.id))
        outcomes = [entry["call"] for entry in journal if entry["type"] == "tool_call_completed"]
        assert sorted(outcomes) == list(range(1, len(tools) + 1))
