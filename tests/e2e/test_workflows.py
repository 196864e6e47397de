"""Scripts that call workflows, on the real processes: child runs, their ends, cancels, kills."""

import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import rewind

from tests.e2e.stack import Stack, eventually

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
    database_url: str, s3_url: str, folder: Path, environ: dict[str, str] | None = None, **workflows: str
) -> AsyncIterator[tuple[Stack, rewind.AsyncRewind]]:
    """A stack with these workflows, each without tools, and the toolset `t` that lists them."""
    async with Stack(database_url, s3_url, folder, environ=environ) as stack, client(stack) as sdk:
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


PARENTS = """
import { run, sleep, ToolError, waitForSignal } from "rewind";
import { double, wait } from "rewind:workflows";

export default async function main(input: { how: string }) {
  if (input.how === "catch") {
    try { await double({ n: -1 }); }
    catch (error) {
      if (error instanceof ToolError) return { name: error.name, message: error.message, code: error.code, data: error.data, tool: error.tool };
    }
  }
  if (input.how === "throw") await double({ n: -1 });
  if (input.how === "fail") {
    void wait({ name: "go" });
    await wait.start({ name: "go" });
    throw new Error("not today");
  }
  if (input.how === "wait") {
    const begun = await wait.start({ name: "go" });
    return [begun.id, await wait({ name: "go" })];
  }
  if (input.how === "many") {
    const all = await Promise.all(Array.from({ length: 12 }, (_, n) => double({ n })));
    return all.map((one) => one.doubled);
  }
}
"""
WAIT = """
import { waitForSignal } from "rewind";

export default async function main(input: { name: string }): Promise<string> {
  return await waitForSignal<string>(input.name);
}
"""


async def child_waited_for(sdk: rewind.AsyncRewind, run: str, children: int) -> str:
    """The child that the run waits for, once it has so many."""

    async def look() -> str | None:
        found = await sdk.runs.get(run)
        waits = [wait["run"] for wait in found.waiting_for if wait["kind"] == "child_run"]
        return waits[0] if waits and len(found.children) == children else None

    return str(await eventually(look, what="a child that is waited for"))


async def test_how_children_end_and_with_whom(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with deployed(database_url, s3_url, tmp_path, double=DOUBLE, wait=WAIT) as (_, sdk):

        async def start(how: str, **options: Any) -> rewind.Run:
            return await sdk.runs.start(script=PARENTS, toolset="t", input={"how": how}, **options)

        caught = await start("catch", wait="30s")
        assert caught.output | {"data": None} == {
            "name": "ToolError", "message": "cannot double -1", "code": "tool_failed", "data": None,
            "tool": "workflows.double",
        }  # fmt: skip
        assert caught.output["data"]["name"] == "RangeError"
        assert caught.output["data"]["run"] == caught.children[0]
        thrown = await start("throw", wait="30s")
        assert thrown.error is not None
        assert (thrown.status, thrown.error["message"], thrown.error["line"]) == (
            "failed",
            "cannot double -1",
            12,
        )

        run = await start("wait")
        awaited = await child_waited_for(sdk, run.id, 2)
        (begun,) = set((await sdk.runs.get(run.id)).children) - {awaited}
        await sdk.runs.signal(awaited, "go", "done")
        assert (await sdk.runs.wait(run.id)).output == [begun, "done"]
        assert (await sdk.runs.get(begun)).status == "active"

        for how, status in (("wait", "cancelled"), ("fail", "failed")):
            run = await start(how)
            awaited = await child_waited_for(sdk, run.id, 2) if how == "wait" else ""
            if how == "wait":
                await sdk.runs.cancel(run.id)
            ended = await sdk.runs.wait(run.id)
            assert ended.status == status
            assert len(ended.children) == 2
            awaited = awaited or ended.children[0]
            child = await sdk.runs.wait(awaited)
            assert (child.status, child.reason) == ("cancelled", "parent")
            (other,) = set(ended.children) - {awaited}
            assert (await sdk.runs.get(other)).status == "active"
            (completed,) = [e for e in await journal(sdk, run.id, "tool_call_completed") if "error" in e]
            assert completed["error"]["name"] == "CancelledError"


async def test_calls_are_typed_and_pinned(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with deployed(database_url, s3_url, tmp_path, double=DOUBLE) as (_, sdk):
        head = 'import { double } from "rewind:workflows";\n'
        good = head + "export default async () => (await double({ n: 2 })).doubled;"
        assert (await sdk.scripts.check(good, toolset="t")).output_type == "number"
        for wrong, code in (
            ('export default async () => await double({ n: "2" });', "TS2322"),
            ("export default async () => (await double({ n: 2 })).tripled;", "TS2339"),
            ("export default async () => (await double.start({ n: 2 })).doubled;", "TS2339"),
        ):
            found = await sdk.scripts.check(head + wrong, toolset="t")
            assert [one["code"] for one in found.diagnostics] == [code], found.diagnostics
        alone = await sdk.scripts.check(good)
        assert not alone.ok
        assert "no workflow `double`" in alone.diagnostics[0]["message"]
        text = await sdk.toolsets.declarations("t")
        assert 'declare module "rewind:workflows"' in text
        prompt = await sdk.toolsets.declarations("t", format="prompt")
        assert 'import { double } from "rewind:workflows"' in prompt

        before = (await sdk.toolsets.get("t")).digest
        first = await sdk.workflows.get("double")
        await sdk.workflows.put("double", DOUBLE.replace("* 2", "* 3"))
        assert (await sdk.runs.start(workflow="double", input={"n": 2}, wait="30s")).output["doubled"] == 6
        assert (await sdk.runs.start(script=good, toolset="t", wait="30s")).output == 4
        await sdk.toolsets.register("t", workflows=["double"])
        assert (await sdk.toolsets.get("t")).digest != before
        assert (await sdk.runs.start(script=good, toolset="t", wait="30s")).output == 6
        assert [one.digest async for one in sdk.workflows.versions("double")][1] == first.digest
        await sdk.workflows.delete("double")
        assert [one.name async for one in sdk.workflows.list()] == []
        assert (await sdk.runs.start(script=good, toolset="t", wait="30s")).output == 6
        with pytest.raises(rewind.Refused) as refused:
            await sdk.runs.start(workflow="double", input={"n": 2})
        assert refused.value.code == "unknown_workflow"


NEST = """
import { nest } from "rewind:workflows";
export default async function main(input: { depth: number }): Promise<number> {
  return input.depth === 0 ? 0 : 1 + await nest({ depth: input.depth - 1 });
}
"""


async def test_workflows_call_each_other_sixteen_deep(database_url: str, s3_url: str, tmp_path: Path) -> None:
    """A workflow that calls itself calls the version that its toolset is pinned to: an earlier one."""
    first = "export default async function main(input: { depth: number }) { return input.depth; }"
    async with deployed(database_url, s3_url, tmp_path, nest=first) as (_, sdk):
        for version in range(17):
            await sdk.workflows.put("nest", NEST, toolset="t", description=str(version))
            await sdk.toolsets.register("t", workflows=["nest"])
        run = await sdk.runs.start(script=NEST, toolset="t", input={"depth": 16}, wait="60s")
        assert (run.output, run.error) == (16, None)
        deep = await sdk.runs.start(script=NEST, toolset="t", input={"depth": 17}, wait="60s")
        assert deep.error is not None
        assert "at most 16 deep" in deep.error["message"]
        assert len([found async for found in sdk.runs.list(workflow="nest", status="failed")]) == 16


@pytest.mark.timeout(600)
async def test_kills_leave_one_child_per_call(database_url: str, s3_url: str, tmp_path: Path) -> None:
    """serve and the worker are killed (-9) at random moments; a killed dispatcher's leases are waited for in moved time."""
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\nseed {seed}")
    rng = random.Random(seed)
    async with deployed(database_url, s3_url, tmp_path, double=DOUBLE, wait=WAIT) as (stack, sdk):
        for _ in range(6):
            run = await sdk.runs.start(script=PARENTS, toolset="t", input={"how": "many"})
            children = rng.randrange(0, 13)

            async def reached(run: rewind.Run = run, children: int = children) -> bool:
                found = await stack.database.row(
                    "select count(*) as n from run_facts where parent ->> 'run' = $1", run.id
                )
                return bool(found["n"] >= children)

            await eventually(reached, what="enough children", every_s=0.0005)
            if rng.random() < 0.7:
                stack.serve.kill()
                stack.start_serve()
            if rng.random() < 0.5:
                await stack.kill_worker(stack.workers[0])
            await stack.ready()
            await stack.database.advance(30_001)
            ended = await sdk.runs.wait(run.id, timeout_s=90)
            assert (ended.error, ended.output) == (None, [2 * n for n in range(12)])
            assert ended.children == sorted(set(ended.children))
            assert len(ended.children) == 12
            replayed = await sdk.runs.replay(run.id)
            assert replayed["matches"] is True


FAN = """
import { double } from "rewind:workflows";

export default async function main(input: { count: number }) {
  const all = await Promise.all(Array.from({ length: input.count }, (_, n) => double({ n: n % 5 })));
  return all.reduce((sum, one) => sum + one.doubled, 0);
}
"""


@pytest.mark.timeout(600)
async def test_a_thousand_children(database_url: str, s3_url: str, tmp_path: Path) -> None:
    """Each costs about what it costs among a hundred: nothing here is quadratic."""
    async with deployed(database_url, s3_url, tmp_path, double=DOUBLE) as (_, sdk):

        async def fan_out(count: int) -> float:
            began = time.monotonic()
            run = await sdk.runs.start(script=FAN, toolset="t", input={"count": count})
            ended = await sdk.runs.wait(run.id, timeout_s=300)
            took_s = time.monotonic() - began
            assert (ended.error, ended.output) == (None, sum(2 * (n % 5) for n in range(count)))
            assert len(ended.children) == 20
            assert ended.children == sorted(ended.children)
            return took_s / count

        few = min([await fan_out(100), await fan_out(100)])
        many = await fan_out(1_000)
        print(f"\na child: {few * 1000:.1f} ms among 100, {many * 1000:.1f} ms among 1,000")
        assert many < 3 * few


async def test_evicted_replayed_and_forked(database_url: str, s3_url: str, tmp_path: Path) -> None:
    """With no isolate kept warm every activation is a replay; a fork reuses what its children have answered."""
    cold = {"REWIND_WARM_RUNS": "0"}
    async with deployed(database_url, s3_url, tmp_path, environ=cold, double=DOUBLE, wait=WAIT) as (
        stack,
        sdk,
    ):
        run = await sdk.runs.start(script=PARENTS, toolset="t", input={"how": "many"}, wait="60s")
        assert run.output == [2 * n for n in range(12)]
        assert (await sdk.runs.replay(run.id))["matches"] is True
        forked = await sdk.runs.fork(run.id, wait="60s")
        assert forked.status == "completed", stack.logs()
        assert (forked.output, forked.children) == (run.output, [])
        waiting = await sdk.runs.start(script=PARENTS, toolset="t", input={"how": "wait"})
        awaited = await child_waited_for(sdk, waiting.id, 2)
        await sdk.runs.signal(awaited, "go", "x" * 100_000)
        ended = await sdk.runs.wait(waiting.id)
        assert ended.output[1] == "x" * 100_000
        assert (await sdk.runs.replay(waiting.id))["matches"] is True
        mocks = {"workflows.double": [{"args": "*", "result": {"doubled": 5, "text": ""}, "repeat": True}]}
        tested = await sdk.scripts.test(PARENTS, toolset="t", input={"how": "many"}, mocks=mocks)
        assert tested["output"] == [5] * 12
