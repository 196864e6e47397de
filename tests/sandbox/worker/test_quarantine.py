"""A replay that differs from its journal is the platform's fault: the run is quarantined, and never fails."""

import json

from sandbox.journal.entries import END_TYPES
from sandbox.store.interface import EventOutcome, RunRecord, RunStatus
from tests.sandbox.worker.conftest import Bench

SCRIPT = """
import { g } from "rewind:tools";
export default async function main() {
  const one = await g.echo({ step: 1 });
  try {
    return await g.echo({ step: 2, one });
  } catch {
    return "caught";
  }
}
"""
# What a bug of ours, or a changed engine, would look like: the script did something else than is recorded.
FALSIFY = """update entries set body = convert_to(replace(convert_from(body, 'UTF8'), 'g.echo', 'g.other'), 'UTF8')
  where run_id = $1 and type = 2"""


async def test_a_divergence_quarantines_the_run_and_says_where(bench: Bench) -> None:
    run = await bench.start(SCRIPT)
    await bench.worker(warm_runs=0)
    await bench.until(run, lambda record: record.calls == 1)
    async with bench.edge.pool.acquire() as connection:
        while await connection.fetchval("select owner is not null from runs where run_id = $1", run):
            pass
        async with connection.transaction():
            await connection.execute("set local role none")  # no role of the product may do this
            await connection.execute(FALSIFY, run)
    await bench.complete(run, 1, "A")

    def stopped(record: RunRecord) -> bool:
        return record.status is not RunStatus.ACTIVE

    record = await bench.until(run, stopped)
    assert (record.status, record.ended_at) == (RunStatus.QUARANTINED, None)
    async with bench.edge.pool.acquire() as connection:
        report = json.loads(
            await connection.fetchval("select report from quarantines where run_id = $1", run)
        )
    assert (report["code"], report["field_name"], report["seq"]) == ("divergence", "tool", 1)
    assert (report["expected"], report["actual"], report["line"]) == ("g.other", "g.echo", 4)
    assert (await bench.signal(run, "later", None, "s1")).outcome is EventOutcome.APPENDED
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert not {entry.type for entry in entries} & END_TYPES
