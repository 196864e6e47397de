"""Long and heavy journals are streamed: what `serve` holds of them at once does not grow with them."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from rewind import AsyncRewind

from sandbox.config import DATA_KEY_FILE
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import EntryType, Log
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import DataKey, entry_place
from tests.e2e.stack import Process, Stack
from tests.fixtures.database import connect

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
ENTRIES, HEAVY, HEAVY_BYTES = 50_000, 1_000, 60_000
READERS, READER_BYTES_MAX = 6, 16 * MIB
SCRIPT = """import { waitForSignal } from "rewind";
export default async function main() { await waitForSignal("go"); }"""
COLUMNS = ["namespace_id", "run_id", "seq", "type", "time", "cause", "body"]


def peak_bytes(process: Process) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


async def waiting_run(stack: Stack, client: AsyncRewind, entries: int, log_bytes: int) -> str:
    """A run that waits, with so many entries: as if its script had logged before."""
    run = (await client.runs.start(script=SCRIPT, wait="30s", until="blocked")).id
    row = await stack.database.row("select namespace_id, last_time from runs where run_id = $1", run)
    namespace = NamespaceId(str(row["namespace_id"]))
    store = await PostgresEdge.open(
        stack.database.url, data_key=DataKey.from_file(stack.folder / DATA_KEY_FILE), size=1
    )
    sealer, place = (await store.keys.of(namespace)).of(RunId(run)), entry_place(EntryType.LOG)
    body = sealer.seal(encode_body(Log("log", ["x" * log_bytes])), place)
    await store.close()

    def rows() -> Iterator[tuple[object, ...]]:
        for seq in range(2, entries):
            yield (namespace, run, seq, int(EntryType.LOG), row["last_time"], 0, body)

    connection = await connect(stack.database.url, role="none")
    try:
        await connection.copy_records_to_table("entries", records=rows(), columns=COLUMNS)
        await connection.execute("update runs set next_seq = $2 where run_id = $1", run, entries)
    finally:
        await connection.close()
    return run


@pytest.mark.timeout(300)
async def test_a_long_journal_is_read_in_bounded_memory(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):
        run = await waiting_run(stack, client, ENTRIES, 1_000)
        assert len(await client.runs.journal(run, after=ENTRIES - 1_001)) == 1_000
        before = peak_bytes(stack.serve)
        assert [entry["seq"] for entry in await client.runs.journal(run)] == list(range(ENTRIES))
        grown = peak_bytes(stack.serve) - before
        print(f"\n{ENTRIES:,} entries: serve's peak grew by {grown / MIB:.1f} MiB")
        assert grown < 24 * MIB


@pytest.mark.timeout(300)
async def test_readers_that_are_slow_hold_a_piece_each_not_a_page(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
        httpx2.AsyncClient(base_url=stack.url, trust_env=False, timeout=120) as http,
    ):
        run = await waiting_run(stack, client, HEAVY, HEAVY_BYTES)
        request = f"/v1/runs/{run}/journal?namespace=n&limit={HEAVY}"
        headers = {"Authorization": f"Bearer {stack.api_key}"}
        before = peak_bytes(stack.serve)
        sizes = [0] * READERS
        streams = [http.stream("GET", request, headers=headers) for _ in range(READERS)]
        answers = [await stream.__aenter__() for stream in streams]
        for index, answer in enumerate(answers):  # one after the other: the rest waits with full buffers
            async for piece in answer.aiter_raw():
                sizes[index] += len(piece)
        for stream in streams:
            await stream.__aexit__(None, None, None)
        assert min(sizes) == max(sizes) > (HEAVY - 2) * HEAVY_BYTES
        grown = peak_bytes(stack.serve) - before
        print(f"\n{READERS} pages of {sizes[0] / MIB:.0f} MiB: serve's peak grew by {grown / MIB:.1f} MiB")
        assert grown < READERS * READER_BYTES_MAX
