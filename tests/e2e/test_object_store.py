"""The object store stops in the middle of a run: what needs it waits, and nothing is lost or done twice."""

from pathlib import Path

import pytest
from rewind import ApiError, AsyncRewind, tool

from infra.object_store import EmbeddedObjectStore
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

BIG = 100_000
SCRIPT = """
import { vault } from "rewind:tools";
export default async function main(input: { size: number }) {
  const text = await vault.fetch({ size: input.size });
  return { twice: text + text, call: await vault.keep({ text }) };
}
"""


@pytest.mark.timeout(240)
async def test_a_run_waits_for_the_object_store(database_url: str, tmp_path: Path) -> None:
    calls: list[str] = []

    @tool(name="vault.fetch")
    async def fetch(size: int) -> str:
        """Answered while the object store is away: the outcome is told until it is taken."""
        calls.append("fetch")
        objects.stop()
        return "x" * size

    @tool(name="vault.keep")
    async def keep(text: str) -> int:
        calls.append("keep")
        return len(text)

    objects = EmbeddedObjectStore(tmp_path / "objects").start()
    try:
        async with (
            Stack(database_url, objects.url, tmp_path) as stack,
            AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="vault") as client,
        ):
            await client.toolsets.register("vault", tools=[fetch, keep])
            async with client.worker(toolset="vault", tools=[fetch, keep]):
                run = (await client.runs.start(script=SCRIPT, toolset="vault", input={"size": BIG})).id

                async def refused() -> bool:
                    return "the object store failed" in stack.logs() or await tried(client)

                await eventually(lambda: called(calls), what="the call")
                await eventually(refused, what="a refusal", every_s=0.1)
                waiting = await client.runs.get(run)
                assert (waiting.status, waiting.usage["entries"]) == ("active", 2)
                objects.start()
                ended = await client.runs.wait(run, timeout_s=90)
            assert ended.status == "completed", stack.logs()
            output = await client.runs.output(run)
            assert output == {"twice": "x" * 2 * BIG, "call": BIG}
            assert calls == ["fetch", "keep"]
            journal = await client.runs.journal(run)
            result = next(entry for entry in journal if entry["type"] == "tool_call_completed")
            assert "value" not in result["result"]  # type: ignore[typeddict-item]
            sha256 = result["result"]["sha256"]  # type: ignore[typeddict-item]
            assert await client.runs.values(run, sha256) == "x" * BIG
    finally:
        objects.stop()


@pytest.mark.timeout(240)
async def test_what_a_script_makes_waits_for_the_object_store(database_url: str, tmp_path: Path) -> None:
    script = """
    import { waitForSignal } from "rewind";
    export default async function main() { await waitForSignal("go"); return "y".repeat(100000); }
    """
    objects = EmbeddedObjectStore(tmp_path / "objects").start()
    try:
        async with (
            Stack(database_url, objects.url, tmp_path) as stack,
            AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="vault") as client,
        ):
            run = (await client.runs.start(script=script, wait="30s", until="blocked")).id
            objects.stop()
            await client.runs.signal(run, "go")

            async def put_down() -> bool:
                return f"run {run} is put down" in stack.logs()

            await eventually(put_down, what="the wait of the append", every_s=0.1)
            assert (await client.runs.get(run)).status == "active"
            objects.start()
            ended = await client.runs.wait(run, timeout_s=90)
            assert (ended.status, ended.output) == ("completed", "y" * 100_000), stack.logs()
            assert [entry["type"] for entry in await client.runs.journal(run)].count("complete_run") == 1
    finally:
        objects.stop()


async def called(calls: list[str]) -> bool:
    return bool(calls)


async def tried(client: AsyncRewind) -> bool:
    """Whether the api refuses what needs the object store by now."""
    try:
        await client.runs.start(script="export default () => 1", input="z" * BIG, max_retries=0)
    except ApiError as error:
        return error.status == 503
    return False
