"""The one statement that starts a run."""

import asyncpg
import orjson

from sandbox.journal.ids import RunId
from sandbox.store.interface import StartOutcome, StartVerdict
from sandbox.store.postgres.sealed import SealedStart

START_SQL = "select outcome, run, refusal from start_run(" + ",".join(f"${n}" for n in range(1, 22)) + ")"


async def start(connection: asyncpg.Connection, item: SealedStart) -> StartVerdict:
    """Record the run and its run_started, or answer what its idempotency key started before."""
    start = item.start
    row = await connection.fetchrow(
        START_SQL,
        start.namespace,
        start.organization,
        start.run,
        start.time,
        start.time + start.ttl_ms,
        item.body,
        start.epoch,
        start.script,
        start.toolset,
        start.toolset_digest,
        start.workflow,
        orjson.dumps(start.labels).decode(),
        start.created_by[0],
        start.created_by[1],
        None if start.parent is None else orjson.dumps(start.parent).decode(),
        start.route,
        start.idempotency_key,
        start.request_sha256,
        start.held,
        None if start.fork is None else orjson.dumps(start.fork).decode(),
        item.fork_report,
    )
    refusal = None if row["refusal"] is None else orjson.loads(row["refusal"])
    return StartVerdict(StartOutcome(row["outcome"]), RunId(str(row["run"])), refusal)
