"""`rewind verify RUN` on runs that somebody with the keys and the database changed: what it prints, and its exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rewind import AsyncRewind

from sandbox.config import DATA_KEY_FILE
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import DataKey, entry_place
from tests.e2e.stack import Stack, eventually
from tests.e2e.test_reenactments import command

pytestmark = pytest.mark.e2e

SCRIPT = """import { waitForSignal } from "rewind";
export default async function main() {
  const answer = await waitForSignal<{ words: string }>("go");
  console.log("heard", answer.words);
  return answer.words.length;
}"""
RECEIVED, LAST = 2, 4
"""run_started, signal_awaited, signal_received, log, complete_run."""
SCOPE = ("--namespace", "n")
SOUND = "chain ok\nvalues ok, root ok, replay matches\n"


async def sealed_run(stack: Stack, client: AsyncRewind) -> str:
    run = (await client.runs.start(script=SCRIPT, wait="30s", until="blocked")).id
    await client.runs.signal(run, "go", {"words": "a quiet word"}, id="s")
    assert (await client.runs.wait(run, timeout_s=60)).output == len("a quiet word")

    async def is_sealed() -> bool:
        row = await stack.database.row("select count(*) as n from seals where run_id = $1", run)
        return bool(row["n"])

    await eventually(is_sealed, what="the seal")
    return run


async def rewritten(stack: Stack, run: str, seq: int, change: Callable[[bytes], bytes]) -> None:
    """Change an entry as somebody could who has the database and the data key."""
    store = await PostgresEdge.open(
        stack.database.url, data_key=DataKey.from_file(stack.folder / DATA_KEY_FILE), size=1
    )
    try:
        row = await stack.database.row(
            "select namespace_id, type, body from entries where run_id = $1 and seq = $2", run, seq
        )
        sealer = (await store.keys.of(NamespaceId(str(row["namespace_id"])))).of(RunId(run))
        place = entry_place(row["type"])
        was = sealer.open(row["body"], place)
        assert change(was) != was
        await as_owner(
            stack,
            "update entries set body = $3 where run_id = $1 and seq = $2",
            run,
            seq,
            sealer.seal(change(was), place),
        )
    finally:
        await store.close()


async def as_owner(stack: Stack, sql: str, *values: object) -> None:
    """What no role of the product may do."""
    await stack.database.rows("set role none")
    await stack.database.rows(sql, *values)
    await stack.database.rows("set role rewind_test")


@pytest.mark.timeout(240)
async def test_what_was_changed_afterwards_is_found_and_named(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with (
        Stack(database_url, s3_url, tmp_path) as stack,
        AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as client,
    ):
        sound, value, text, removed, cut, redacted = [await sealed_run(stack, client) for _ in range(6)]
        assert await command(stack, "verify", sound, *SCOPE) == (0, SOUND)

        await rewritten(stack, value, RECEIVED, lambda body: body.replace(b"quiet", b"loud!"))
        code, told = await command(stack, "verify", value, *SCOPE)
        assert (code, told.splitlines()[:2]) == (
            1,
            ["chain ok", f"values differ in entries [{RECEIVED}], root ok, replay differs"],
        )
        assert told.splitlines()[2].startswith("diverged at entry 3 (log): ")

        await rewritten(stack, text, 3, lambda body: body.replace(b"heard", b"said!"))
        code, told = await command(stack, "verify", text, *SCOPE)
        assert (code, told.splitlines()[:2]) == (
            1,
            ["chain ok", "values ok, root differs, replay differs"],
        )
        assert told.splitlines()[2].startswith("diverged at entry 3 (log): ")

        for run, seq in ((removed, RECEIVED), (cut, LAST)):
            await as_owner(stack, "delete from entries where run_id = $1 and seq = $2", run, seq)
            assert await command(stack, "verify", run, *SCOPE) == (
                1,
                f"chain ok\nvalues ok, root differs, not replayable\nmissing entries: {seq}\n",
            )

        await client.runs.redact(redacted, seq=RECEIVED, field="payload", reason="asked for")
        assert await command(stack, "verify", redacted, *SCOPE) == (
            0,
            "chain ok\nvalues ok, root ok, not replayable\n",
        )


CHANGES = {
    "another-root": "update seals set root = decode(repeat('00', 32), 'hex') where run_id = $1",
    "a-seal-removed": "delete from seals where run_id = $1",
    "another-predecessor": "update seals set previous = decode(repeat('00', 32), 'hex') where run_id = $1",
}


@pytest.mark.timeout(240)
async def test_a_chain_that_was_changed_is_broken_for_every_run_after_it(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    async with Stack(database_url, s3_url, tmp_path) as stack:
        for name, change in CHANGES.items():
            async with AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace=name) as client:
                changed, after = [await sealed_run(stack, client) for _ in range(2)]
            await as_owner(stack, change, changed)
            broken = "chain broken: the seals of the namespace do not follow from each other\n"
            assert await command(stack, "verify", after, "--namespace", name) == (
                1,
                broken + "values ok, root ok, replay matches\n",
            )
