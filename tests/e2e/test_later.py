"""On the real processes: a run that starts later starts by itself, and is sealed by itself after its end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rewind import AsyncRewind

from sandbox.journal.ids import RunId
from sandbox.store.seal import Root
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(120)
async def test_a_run_starts_at_its_time_and_is_sealed(database_url: str, s3_url: str, tmp_path: Path) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="later") as client,
    ):
        script = "export default () => { console.log('begun'); return Date.now(); }"
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        kept = await client.runs.start(script=script, start_at=tomorrow)
        dropped = await client.runs.start(script=script, start_at=tomorrow)
        assert kept.waiting_for[0]["kind"] == "timer"
        await client.runs.cancel(dropped.id)
        cancelled = await client.runs.wait(dropped.id, timeout_s=30)
        assert cancelled.status == "cancelled"
        assert [entry["type"] for entry in await client.runs.journal(dropped.id)] == [
            "run_started",
            "cancel_requested",
            "cancel_run",
        ]
        await stack.database.advance(86_400_000)
        seqs = [entry["seq"] async for entry in client.runs.events(kept.id)]
        ended = await client.runs.get(kept.id)
        assert (ended.status, seqs) == ("completed", [0, 1, 2])
        # The whole ms of its start are its logical time.
        assert ended.output == (tomorrow - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)

        async def both_sealed() -> bool:
            row = await stack.database.row("select count(*) as n from seals")
            return bool(row["n"] == 2)

        await eventually(both_sealed, within_s=20, what="sealing")
        root = Root(RunId(kept.id))
        root.add(await stack.entries(kept.id))
        sealed = await stack.database.row("select root, entries from seals where run_id = $1", kept.id)
        assert (sealed["root"].hex(), sealed["entries"]) == (root.hex(), 3)
