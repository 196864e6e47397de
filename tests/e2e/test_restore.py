"""A backup taken while runs wait, everything destroyed, everything restored: the runs go on (docs/operations.md)."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rewind import AsyncRewind

from app.config import KEY_FILE
from infra.embedded_postgres import EmbeddedPostgres
from infra.migrate import upgrade
from infra.object_store import EmbeddedObjectStore
from infra.postgres_programs import environment, installed, psql
from sandbox.config import DATA_KEY_FILE
from tests.e2e.stack import Stack
from tests.fixtures.database import new_database

pytestmark = pytest.mark.e2e

DAYS_MS = 10 * 86_400_000
BIG = "big " * 50_000
SLEEPER = """import { sleep } from "rewind";
export default async function main(input: { text: string }) { await sleep("10d"); return input.text.length; }"""
WAITER = """import { waitForSignal } from "rewind";
export default async function main() { return await waitForSignal("go"); }"""


BACKUP = "rewind_backup"
MAKE_BACKUP_ROLE = f"""do $$ begin
  if not exists (select from pg_roles where rolname = '{BACKUP}') then
    create role {BACKUP} login bypassrls in role pg_read_all_data;
  end if;
end $$"""
"""As docs/operations.md has it."""


@pytest.fixture
def new_cluster() -> Iterator[str]:
    """Another server, on which nothing of Rewind has ever been."""
    folder = Path(tempfile.mkdtemp(prefix="rw-"))
    folder.chmod(0o755)
    try:
        with EmbeddedPostgres(folder / "postgres") as server:
            yield server.url()
    finally:
        shutil.rmtree(folder)


def as_user(url: str, user: str) -> str:
    return url.replace("postgresql://postgres@", f"postgresql://{user}@")


def postgres(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [installed() / "bin" / program, *arguments], env=environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.timeout(240)
async def test_runs_go_on_after_everything_was_destroyed_and_restored(
    postgres_url: str, new_cluster: str, tmp_path: Path
) -> None:
    lost, backup, restored = (tmp_path / name for name in ("lost", "backup", "restored"))
    for folder in (lost, backup, restored):
        folder.mkdir()
    dump = backup / "dump"
    store = EmbeddedObjectStore(tmp_path / "objects").start()
    try:
        with new_database(postgres_url) as url:
            async with (
                Stack(url, store.url, lost) as stack,
                AsyncRewind(api_key=stack.api_key, base_url=stack.url, namespace="acme") as client,
            ):
                sleeper = await client.runs.start(script=SLEEPER, input={"text": BIG})
                waiter = await client.runs.start(script=WAITER)
                for run in (sleeper, waiter):
                    await client.runs.wait(run.id, until="blocked", timeout_s=30)
                psql(url, MAKE_BACKUP_ROLE)
                with pytest.raises(AssertionError, match="row-level security"):
                    postgres("pg_dump", "-Fc", "-f", str(dump), "--role=rewind_owner", url)
                postgres("pg_dump", "-Fc", "-f", str(dump), as_user(url, BACKUP))
                after = await client.runs.start(script=WAITER)
                for name in (DATA_KEY_FILE, KEY_FILE):
                    shutil.copy(lost / name, backup / name)
                key = stack.api_key
        store.stop()
        shutil.copytree(store.folder, backup / "objects")
        shutil.rmtree(store.folder)
        shutil.rmtree(lost)

        shutil.copytree(backup / "objects", store.folder)
        store.start()
        for name in (DATA_KEY_FILE, KEY_FILE):
            shutil.copy(backup / name, restored / name)
        url = new_cluster
        await upgrade(url)  # makes the roles that the dump names
        postgres("pg_restore", "--clean", "--if-exists", "-d", url, str(dump))
        assert await upgrade(url) == []
        async with (
            Stack(url, store.url, restored) as stack,
            AsyncRewind(api_key=key, base_url=stack.url, namespace="acme") as client,
        ):
            listed = [run.id async for run in client.runs.list()]
            assert listed == [waiter.id, sleeper.id]
            assert after.id not in listed
            await client.runs.signal(waiter.id, "go", {"yes": True})
            answered = await client.runs.wait(waiter.id, timeout_s=30)
            assert (answered.status, answered.output) == ("completed", {"yes": True})
            await stack.database.advance(DAYS_MS)
            woken = await client.runs.wait(sleeper.id, timeout_s=30)
            assert (woken.status, woken.output) == ("completed", len(BIG))
    finally:
        store.stop()
