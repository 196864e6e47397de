"""Random numbers of a run are its own and the same wherever it is executed: warm, cold, in the local sandbox."""

import json
from typing import Any

import orjson

from sandbox.journal.codec import wire_json
from sandbox.journal.ids import RunId
from sandbox.store.interface import RunRecord, RunStatus
from tests.fixtures.local_sandbox import local_sandbox
from tests.sandbox.worker.conftest import Bench

SCRIPT = """
import { g } from "rewind:tools";
export default async function main() {
  const drawn = () => [Math.random(), crypto.randomUUID(), ...crypto.getRandomValues(new Uint32Array(2))];
  const before = drawn();
  await g.echo({});
  return [before, drawn()];
}
"""


def called(record: RunRecord) -> bool:
    return record.calls == 1


def ended(record: RunRecord) -> bool:
    return record.status is not RunStatus.ACTIVE


async def journal(bench: Bench, run: RunId) -> list[Any]:
    """As it is exported."""
    entries = await bench.edge.read_entries(bench.namespace, run)
    return [
        orjson.loads(wire_json(e.seq, e.type, e.time, cause=e.cause, fire_at=e.fire_at, body=e.body))
        for e in entries
    ]


async def test_one_run_draws_the_same_numbers_cold_and_in_the_local_sandbox(bench: Bench) -> None:
    """Its isolate is dropped at the call: what the second half draws follows from a replay of the first."""
    run = await bench.start(SCRIPT)
    await bench.worker(warm_runs=0)
    await bench.until(run, called)
    await bench.complete(run, 1, None)
    assert (await bench.until(run, ended)).status is RunStatus.COMPLETED
    assert bench.pool.opened.count(run) > 1
    exported = await journal(bench, run)
    request = {"script": SCRIPT, "toolset": {"tools": [{"name": "g.echo"}]}, "run": run, "journal": exported}
    async with local_sandbox() as local:
        answer = (await local.ask(id=1, verb="replay", **request))["result"]
        assert answer["matches"] is True, answer
        assert answer["output"] == exported[-1]["output"]["value"]
        exported[0]["seed"] = "0" * 32
        assert (await local.ask(id=2, verb="replay", **request))["result"]["matches"] is False


async def test_two_runs_of_the_same_millisecond_draw_other_numbers(bench: Bench) -> None:
    runs = [await bench.start(SCRIPT) for _ in range(2)]
    at = await bench.edge.now()
    async with bench.edge.pool.acquire() as connection:
        await connection.execute("set role none")
        await connection.execute("update entries set time = $1 where run_id = any ($2::uuid[])", at, runs)
        await connection.execute("set role rewind_api")
    await bench.worker()
    drawn = []
    for run in runs:
        await bench.until(run, called)
        await bench.complete(run, 1, None)
        await bench.until(run, ended)
        exported = await journal(bench, run)
        assert exported[0]["time"] == at
        drawn += [json.dumps(number) for half in exported[-1]["output"]["value"] for number in half]
    assert len(set(drawn)) == len(drawn)


async def test_the_same_run_kept_warm_and_another_of_the_same_moment(bench: Bench) -> None:
    first, second = await bench.start(SCRIPT), await bench.start(SCRIPT)
    await bench.worker()
    outputs = []
    for run in (first, second):
        await bench.until(run, called)
        await bench.complete(run, 1, None)
        await bench.until(run, ended)
        outputs.append((await journal(bench, run))[-1]["output"]["value"])
    assert sorted(bench.pool.opened) == sorted([first, second]), "each was kept warm"
    drawn = [json.dumps(number) for output in outputs for half in output for number in half]
    assert len(set(drawn)) == len(drawn), "two runs, or two halves of one, drew the same number"
    exported = await journal(bench, first)
    async with local_sandbox() as local:
        answer = await local.ask(
            id=1,
            verb="replay",
            script=SCRIPT,
            toolset={"tools": [{"name": "g.echo"}]},
            run=first,
            journal=exported,
        )
    assert answer["result"]["output"] == outputs[0]
