"""A replay that differs from its journal is the platform's fault: the run is quarantined, and never fails."""

import json

from sandbox.journal.entries import END_TYPES
from sandbox.journal.ids import RunId
from sandbox.store.interface import EventOutcome, RunRecord, RunStatus
from sandbox.store.sealing import entry_place
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


async def falsify(bench: Bench, run: RunId) -> None:
    """What a bug of ours, or a changed engine, would look like: the script did something else than is recorded."""
    sealer, place = (await bench.edge.keys.of(bench.namespace)).of(run), entry_place(2)
    async with bench.edge.pool.acquire() as connection, connection.transaction():
        body = await connection.fetchval("select body from entries where run_id = $1 and type = 2", run)
        other = sealer.seal(sealer.open(body, place).replace(b"g.echo", b"g.other"), place)
        await connection.execute("set local role none")  # no role of the product may do this
        await connection.execute("update entries set body = $2 where run_id = $1 and type = 2", run, other)


async def test_a_divergence_quarantines_the_run_and_says_where(bench: Bench) -> None:
    run = await bench.start(SCRIPT)
    await bench.worker(warm_runs=0)
    await bench.until(run, lambda record: record.calls == 1)
    async with bench.edge.pool.acquire() as connection:
        while await connection.fetchval("select owner is not null from runs where run_id = $1", run):
            pass
    await falsify(bench, run)
    await bench.complete(run, 1, "A")

    def stopped(record: RunRecord) -> bool:
        return record.status is not RunStatus.ACTIVE

    record = await bench.until(run, stopped)
    assert (record.status, record.ended_at) == (RunStatus.QUARANTINED, None)
    report = json.loads(await bench.edge.quarantine_report(bench.namespace, run) or b"")
    assert (report["code"], report["field_name"], report["seq"]) == ("divergence", "tool", 1)
    assert (report["expected"], report["actual"], report["line"]) == ("g.other", "g.echo", 4)
    assert (await bench.signal(run, "later", None, "s1")).outcome is EventOutcome.APPENDED
    entries = await bench.edge.read_entries(bench.namespace, run)
    assert not {entry.type for entry in entries} & END_TYPES
