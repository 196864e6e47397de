"""What a namespace stores is sealed: nothing of it stands in the database or the object store, and erasing it works."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from rewind import AsyncRewind, tool

from infra.object_store import EmbeddedObjectStore
from infra.postgres_programs import environment, installed
from sandbox.config import DATA_KEY_FILE, hints_dir
from sandbox.journal.ids import NamespaceId
from sandbox.store.hints import HintBus
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import DataKey
from tests.e2e.stack import Stack, eventually

pytestmark = pytest.mark.e2e

SCRIPT = """
import { waitForSignal, progress } from "rewind";
import { vault } from "rewind:tools";
export default async function main(input: { word: string, times: number, fail: boolean }) {
  const got = await vault.fetch({ word: `args-${input.word}`.repeat(input.times) });
  console.log(`log-${input.word}`);
  progress({ at: `progress-${input.word}` });
  const signal = await waitForSignal<string>("go");
  if (input.fail) throw new Error(`error-${input.word}`);
  return [got, signal, `output-${input.word}`.repeat(input.times)];
}
"""
BIG = 9_000
PLANTED = ("input", "args", "result", "log", "progress", "signal", "error", "output")


def dumped(url: str) -> bytes:
    """Every row of every table, the unlogged ones included; bytes in hex."""
    done = subprocess.run(
        [installed() / "bin" / "pg_dump", "--data-only", url],
        env=environment(),
        capture_output=True,
        check=True,
    )
    return done.stdout


def found_in(text: bytes, words: list[str]) -> list[str]:
    """Those of the words that stand in it, as text or in hex."""
    return [word for word in words if word.encode() in text or word.encode().hex().encode() in text]


def everything_below(folder: Path) -> bytes:
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def play(client: AsyncRewind, word: str, *, times: int, fail: bool) -> str:
    given = {"word": word, "times": times, "fail": fail, "pad": f"input-{word}" * times}
    run = await client.runs.start(
        script=SCRIPT, toolset="vault", input=given, labels={"plain": f"label-{word}"}
    )

    async def waits() -> bool:
        waiting = (await client.runs.get(run.id)).waiting_for
        return any(found["kind"] == "signal" for found in waiting)

    await eventually(waits, what="the wait for a signal")
    assert (await client.runs.get(run.id)).raw["progress"] == {"at": f"progress-{word}"}
    await client.runs.signal(run.id, "go", f"signal-{word}" * times)
    ended = await client.runs.wait(run.id, timeout_s=60)
    assert ended.status == ("failed" if fail else "completed")
    return run.id


@pytest.mark.timeout(240)
async def test_nothing_is_stored_in_the_clear_and_a_namespace_can_be_erased(
    database_url: str, tmp_path: Path
) -> None:
    @tool(name="vault.fetch")
    async def fetch(word: str) -> str:
        return word.replace("args-", "result-")

    folder = tmp_path / "objects"
    with EmbeddedObjectStore(folder) as objects:
        async with Stack(database_url, objects.url, tmp_path) as stack:
            runs: dict[str, str] = {}
            for name in ("kept", "erased"):
                async with AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace=name) as client:
                    await client.toolsets.register("vault", tools=[fetch])
                    async with client.worker(toolset="vault", tools=[fetch]):
                        for times in (1, BIG):
                            runs[f"{name}-{times}"] = await play(
                                client, f"{name}{times}x", times=times, fail=False
                            )
                        await play(client, f"{name}-failsx", times=1, fail=True)
            words = [
                f"{what}-{word}"
                for what in PLANTED
                for word in ("kept1x", "erased1x", f"kept{BIG}x", "kept-failsx")
            ]
            database, stored = dumped(database_url), everything_below(folder)
            assert found_in(database + stored, words) == []
            # The search finds what is not sealed: labels, and in hex the digests of big values.
            assert found_in(database, ["label-kept1x"]) == ["label-kept1x"]
            blobs = await stack.database.rows("select encode(sha256, 'hex') as sha256 from blobs")
            assert len(blobs) == 10, "of each big run: input, args, result, signal, output"
            assert len(found_in(database, [row["sha256"] for row in blobs])) == len(blobs)
            await erased(stack, runs)


async def erased(stack: Stack, runs: dict[str, str]) -> None:
    row = await stack.database.row("select id from namespaces where name = 'erased'")
    hints = HintBus(hints_dir(stack.folder), "api")
    hints.start()
    store = await PostgresEdge.open(
        stack.database.url, data_key=DataKey.from_file(stack.folder / DATA_KEY_FILE), hints=hints
    )
    await store.erase_namespace(NamespaceId(str(row["id"])))
    await store.close()
    hints.close()
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    async with httpx2.AsyncClient(base_url=stack.url, headers=headers, trust_env=False) as http:
        for times in (1, BIG):
            run = runs[f"erased-{times}"]
            for path in ("", "/journal", "/output"):
                answer = await http.get(f"/v1/runs/{run}{path}?namespace=erased")
                assert (answer.status_code, answer.json()["code"]) == (409, "history_unavailable"), (
                    answer.text
                )
                assert "was erased" in answer.json()["detail"]
            kept = await http.get(f"/v1/runs/{runs[f'kept-{times}']}?namespace=kept")
            assert (kept.status_code, kept.json()["status"]) == (200, "completed")
            output = await http.get(f"/v1/runs/{kept.json()['id']}/output?namespace=kept")
            assert f"result-kept{times}x" in output.json()["text"]
        start = {"script": "export default () => 1", "namespace": "erased"}
        refused = await http.post("/v1/runs", json=start)
        assert (refused.status_code, refused.json()["code"]) == (409, "history_unavailable")
        going_on = await http.post("/v1/runs", json={**start, "namespace": "kept", "wait": "20s"})
        assert (going_on.status_code, going_on.json()["status"]) == (201, "completed")


async def test_the_data_key_is_rotated_under_running_processes(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    script = 'import { waitForSignal } from "rewind"; export default () => waitForSignal("go");'
    async with Stack(database_url, s3_url, tmp_path) as stack:
        headers = {"Authorization": f"Bearer {stack.api_key}"}
        async with httpx2.AsyncClient(base_url=stack.url, headers=headers, trust_env=False) as http:
            started = await http.post("/v1/runs", json={"script": script, "namespace": "n", "input": 7})
            path = stack.folder / DATA_KEY_FILE
            assert path.stat().st_mode & 0o777 == 0o600
            old, new = path.read_text().strip(), "ab" * 32
            path.write_text(f"{new}\n{old}\n")
            environ = {**os.environ, "REWIND_DATABASE_URL": database_url, "REWIND_DATA": str(stack.folder)}
            rotate = [sys.executable, "-m", "rewind.cli", "admin", "rotate-data-key", "--json"]
            for count in (1, 0):
                done = subprocess.run(rotate, env=environ, capture_output=True, check=True)
                assert json.loads(done.stdout) == {"rewrapped": count}
            path.write_text(f"{new}\n")
            stack.serve.kill()
            stack.start_serve()
            await stack.kill_worker(stack.workers[0])
            await stack.ready()
            run = f"/v1/runs/{started.json()['id']}"
            assert (await http.get(f"{run}?namespace=n")).json()["input"] == 7
            sent = await http.post(f"{run}/signals?namespace=n", json={"name": "go", "payload": "p"})
            assert sent.status_code == 202
            ended = await http.get(f"{run}?namespace=n&wait=30s")
            assert (ended.json()["status"], ended.json()["output"]) == ("completed", "p"), stack.logs()
            # The former key alone is refused in a sentence.
            path.write_text(f"{old}\n")
            for verb in ("serve", "worker"):
                process = stack.process(verb)
                assert process.popen.wait(30) == 2
                assert (
                    "REWIND_DATA_KEY_FILE is not the key"
                    in (stack.folder / f"refused-{verb}.log").read_text()
                )
