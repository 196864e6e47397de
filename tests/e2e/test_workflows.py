"""Scripts that call workflows, on the real processes: child runs, their ends, cancels, kills."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import rewind

from tests.e2e.stack import Stack

pytestmark = pytest.mark.e2e

DOUBLE = """
export default async function main(input: { n: number }) {
  if (input.n < 0) throw new RangeError(`cannot double ${input.n}`);
  return { doubled: input.n * 2, text: "x".repeat(input.n) };
}
"""
PARENT = """
import { double } from "rewind:workflows";

export default async function main(input: { n: number }) {
  const { doubled, text } = await double({ n: input.n });
  const { id } = await double.start({ n: 1 });
  return { doubled, length: text.length, id };
}
"""


def client(stack: Stack) -> rewind.AsyncRewind:
    return rewind.AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme", max_retries=40)


@asynccontextmanager
async def deployed(
    database_url: str, s3_url: str, folder: Path, **workflows: str
) -> AsyncIterator[tuple[Stack, rewind.AsyncRewind]]:
    """A stack with these workflows, each without tools, and the toolset `t` that lists them."""
    async with Stack(database_url, s3_url, folder) as stack, client(stack) as sdk:
        for name, script in workflows.items():
            await sdk.workflows.put(name, script)
        await sdk.toolsets.register("t", workflows=list(workflows))
        yield stack, sdk


async def journal(sdk: rewind.AsyncRewind, run: str, kind: str) -> list[Any]:
    return [entry async for entry in _entries(sdk, run) if entry["type"] == kind]


async def _entries(sdk: rewind.AsyncRewind, run: str) -> AsyncIterator[Any]:
    for entry in await sdk.runs.journal(run):
        yield entry


async def test_a_workflow_is_started_and_called(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with deployed(database_url, s3_url, tmp_path, double=DOUBLE) as (_, sdk):
        alone = await sdk.runs.start(workflow="double", input={"n": 4}, wait="30s")
        assert (alone.status, alone.output["doubled"], alone.workflow) == ("completed", 8, "double")
        run = await sdk.runs.start(script=PARENT, toolset="t", input={"n": 100_000}, wait="60s")
        assert run.error is None
        assert (run.output["doubled"], run.output["length"]) == (200_000, 100_000)
        begun = await sdk.runs.wait(run.output["id"])
        assert len(run.children) == 2
        assert run.children[1] == begun.id
        awaited = await sdk.runs.get(run.children[0])
        for child, call in ((awaited, 1), (begun, 2)):
            assert child.parent == {"run": run.id, "kind": "workflow", "call": call}
            assert (child.status, child.workflow, child.namespace) == ("completed", "double", "acme")
            assert child.deadline == run.deadline
            assert child.created_by == {"kind": "run", "id": run.id}
        (started,) = await journal(sdk, awaited.id, "run_started")
        assert started["parent"] == awaited.parent
        calls = await journal(sdk, run.id, "schedule_tool_call")
        assert [call["tool"] for call in calls] == ["workflows.double", "workflows.double.start"]
        listed = [found.id async for found in sdk.runs.list(parent=run.id)]
        assert listed == [begun.id, awaited.id]
        assert {found.id async for found in sdk.runs.list(workflow="double")} == {alone.id, *listed}
