"""Another secret key for a deployment that runs: the real command, killed in the middle, and no process restarted."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import rewind

from sandbox.store.sealing import SealBroken
from tenancy.secrets import SecretBox
from tests.e2e.stack import Stack, eventually
from tests.fixtures.database import REPOSITORY, connect
from tests.fixtures.web_server import Asked, Reply, WebServer

pytestmark = pytest.mark.e2e
COUNT = 350
"""Secrets beside the one that is used: more than the command seals in one statement."""
ROTATE = [sys.executable, "-m", "rewind.cli", "admin", "rotate-secret-key", "--json"]
SCRIPT = """
import { http } from "rewind:tools";
export default async (input: { url: string }) => (await http.get(input.url)).status;
"""


def marks(rows: list[Any], key: bytes) -> int:
    """How many of them this key opens."""
    box = SecretBox(key)
    return sum(1 for row in rows if box.is_current(row["sealed"]))


async def sealed(connection: asyncpg.Connection) -> list[Any]:
    return list(await connection.fetch("select name, sealed from secrets order by name"))


@pytest.mark.timeout(240)
async def test_the_secret_key_is_rotated_under_a_running_serve(
    database_url: str, s3_url: str, tmp_path: Path
) -> None:
    seen: list[str] = []

    def web(asked: Asked) -> Reply:
        seen.append(asked.headers["authorization"])
        return Reply(200)

    async with (
        WebServer(web) as server,
        Stack(database_url, s3_url, tmp_path, environ={"REWIND_EGRESS_ALLOW": "127.0.0.0/8"}) as stack,
        rewind.AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="n") as sdk,
    ):
        path = tmp_path / "secret.key"

        async def used(value: str) -> None:
            run = await sdk.runs.start(script=SCRIPT, toolset="t", input={"url": server.url})
            ended = await sdk.runs.wait(run.id, timeout_s=60)
            assert (ended.status, ended.output, seen[-1]) == ("completed", 200, value), ended.raw

        await sdk.secrets.put("used", "the-first-value")
        await asyncio.gather(
            *(sdk.secrets.put(f"more{number}", f"value {number}") for number in range(COUNT))
        )
        headers = {server.host: {"Authorization": {"secret": "used"}}}
        await sdk.toolsets.register("t", http={"allow": [server.host], "headers": headers})
        await used("the-first-value")
        first, second = SecretBox.keys_in_file(path)[0], b"n" * 32
        path.write_text(f"{second.hex()}\n{first.hex()}\n")
        connection = await connect(database_url, role="postgres")
        try:
            await interrupt(connection, stack)
            rows = await sealed(connection)
            assert len(rows) == COUNT + 1
            assert 0 < marks(rows, second) < len(rows), "it was killed in the middle"
            assert marks(rows, first) + marks(rows, second) == len(rows)
            await used("the-first-value")  # with either key
            done = subprocess.run(ROTATE, env=stack._environ, cwd=REPOSITORY, capture_output=True, check=True)
            assert json.loads(done.stdout)["resealed"] >= marks(rows, first)
            rows = await sealed(connection)
            assert marks(rows, second) == len(rows)
        finally:
            await connection.close()
        path.write_text(f"{second.hex()}\n")
        await used("the-first-value")  # by the same process as before, without the former key
        await sdk.secrets.put("used", "the-second-value")
        await used("the-second-value")
        stack.serve.stop()
        stack.start_serve()
        await stack.ready()
        await used("the-second-value")
        with pytest.raises(SealBroken):
            SecretBox(first).open(rows[0]["sealed"], "anywhere")
        await refused(stack, path, first)


async def interrupt(connection: asyncpg.Connection, stack: Stack) -> None:
    """Kill the command while it waits for a row that somebody else holds; its last statement may still be done."""

    async def statements(state: str) -> int:
        await connection.execute("select pg_stat_clear_snapshot()")
        return int(
            await connection.fetchval(
                f"select count(*) from pg_stat_activity where query like 'update secrets%' and {state}"
            )
        )

    async def waits() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return await statements("wait_event_type = 'Lock'") == 1

    async def over() -> bool:
        return await statements("state = 'active'") == 0

    async with connection.transaction():
        held = await connection.fetchval(
            "select ctid from secrets order by ctid offset $1 limit 1", COUNT // 2
        )
        await connection.fetch("select name from secrets where ctid = $1 for update", held)
        process = subprocess.Popen(
            ROTATE, env=stack._environ, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        await eventually(waits, what="the command's wait for the lock")
        process.kill()
        process.communicate()
    await eventually(over, what="the end of its last statement")


async def refused(stack: Stack, path: Path, first: bytes) -> None:
    """With the former key alone the command says what is missing, and changes nothing."""
    path.write_text(f"{first.hex()}\n")
    done = subprocess.run(
        ROTATE, env=stack._environ, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "REWIND_SECRET_KEY_FILE" in done.stderr
    assert "Traceback" not in done.stderr
