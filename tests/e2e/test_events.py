"""A hundred watchers of one run see every entry once and in order, though serve is killed and restarted."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from rewind import AsyncRewind

from sandbox.config import hints_dir
from sandbox.store.hints import HintBus
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

WATCHERS = 100
ROUNDS = 60
SCRIPT = """
import { waitForSignal, sleep } from "rewind";
export default async function main(input: { rounds: number }) {
  for (let round = 0; round < input.rounds; round++) {
    console.log("round", round);
    const go = await waitForSignal<number>("go");
    if (round % 10 === 0) await sleep(5);
    console.log("got", go);
  }
  return "done";
}
"""

SCRIPT_WITH_CALL = """
import { tracker } from "rewind:tools";
import { waitForSignal } from "rewind";
export default async function main() {
  await waitForSignal("go");
  await tracker.find({});
}
"""


class Watcher:
    def __init__(self, client: AsyncRewind, run: str) -> None:
        self.seqs: list[int] = []
        self.task = asyncio.create_task(self._watch(client, run))

    async def _watch(self, client: AsyncRewind, run: str) -> None:
        async for entry in client.runs.events(run):
            self.seqs.append(entry["seq"])


async def send_round(client: AsyncRewind, run: str, number: int) -> None:
    await client.runs.signal(run, "go", number, id=f"go-{number}", max_retries=8)


@pytest.mark.timeout(300)
async def test_a_hundred_watchers(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="watched") as client,
    ):
        run = (await client.runs.start(script=SCRIPT, input={"rounds": ROUNDS})).id
        watchers = [Watcher(client, run) for _ in range(WATCHERS)]
        try:
            for number in range(ROUNDS):
                await send_round(client, run, number)
                if number == ROUNDS // 3:  # in the middle of what all of them are reading
                    stack.serve.kill()
                    stack.start_serve()
                elif number == 2 * ROUNDS // 3:
                    assert stack.serve.stop() == 0
                    stack.start_serve()
            ended = await client.runs.wait(run, timeout_s=60)
            assert ended.output == "done", stack.logs()
            await asyncio.wait_for(asyncio.gather(*(watcher.task for watcher in watchers)), 60)
        finally:
            for watcher in watchers:
                watcher.task.cancel()
        expected = [entry["seq"] for entry in await client.runs.journal(run)]
        assert expected == list(range(len(expected)))
        assert all(watcher.seqs == expected for watcher in watchers)


@pytest.mark.timeout(120)
async def test_a_worker_tells_of_every_append_of_a_watched_run(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    """Offering a call is told to claims alone, unless somebody watches: then there is a hint for watchers too."""
    tool = {"name": "tracker.find", "description": "", "input_schema": {"type": "object"}}
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="watched") as client,
    ):
        await client.toolsets.register("t", tools=[tool])
        told: dict[str, int] = Counter()
        hints = HintBus(hints_dir(tmp_path), "api")
        hints.on_message(lambda message: told.update([message["run"]] if message["k"] == "run" else []))
        hints.start()
        try:
            hints_of = [await offered_call(client, hints, told, watched=watched) for watched in (False, True)]
        finally:
            hints.close()
        assert hints_of == [1, 2], "the signal, and for a watched run what it led to"


async def offered_call(client: AsyncRewind, hints: HintBus, told: dict[str, int], *, watched: bool) -> int:
    """How many hints for watchers one signal leads to."""
    run = (await client.runs.start(script=SCRIPT_WITH_CALL, toolset="t")).id
    await client.runs.wait(run, until="blocked", timeout_s=30)
    if watched:
        hints.send("worker", {"k": "watch", "runs": [run]})
    before = told[run]
    await client.runs.signal(run, "go")
    await eventually(lambda: has_call(client, run), what="the call")
    # A hint of this other run comes after all that the worker had to say of the first one.
    other = (await client.runs.start(script="export default () => 1", wait="30s")).id
    await eventually(lambda: is_told(told, other), what="a later hint")
    return told[run] - before


async def has_call(client: AsyncRewind, run: str) -> bool:
    return len(await client.runs.journal(run)) == 4


async def is_told(told: dict[str, int], run: str) -> bool:
    return told[run] > 0
