"""Upgrades apply each file once, all or nothing, whoever starts them and however many at once."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from infra.embedded_postgres import EmbeddedPostgres
from infra.migrate import DatabaseUnreachable, MigrationFailed, load_migrations, status, upgrade
from infra.postgres_programs import psql
from tests.fixtures.database import Clock, connect, new_database

ROLES = ("rewind_api", "rewind_worker")


@pytest.fixture
def empty_url(postgres_url: str) -> Iterator[str]:
    with new_database(postgres_url, template="template1") as url:
        yield url


@pytest.fixture
def cluster() -> Iterator[EmbeddedPostgres]:
    """A server on which no role of ours exists yet."""
    folder = Path(tempfile.mkdtemp(prefix="rw-"))
    folder.chmod(0o755)
    with EmbeddedPostgres(folder, settings={"fsync": "off"}) as server:
        yield server
    shutil.rmtree(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_one.sql").write_text("create table one (n int);\n")
    (tmp_path / "0002_two.sql").write_text("create table two (n int);\n")
    return tmp_path


async def test_upgrade_applies_all_and_a_second_one_nothing(empty_url: str) -> None:
    files = [migration.file for migration in load_migrations()]
    before = await status(empty_url)
    assert (before.applied, before.waiting) == ((), tuple(files))
    assert await upgrade(empty_url) == files
    assert await upgrade(empty_url) == []
    after = await status(empty_url)
    assert (after.applied, after.waiting) == (tuple(files), ())


async def test_concurrent_upgrades_of_one_database_apply_each_file_once(empty_url: str) -> None:
    applied = await asyncio.gather(*(upgrade(empty_url) for _ in range(6)))
    assert sorted(map(len, applied)) == [0, 0, 0, 0, 0, len(load_migrations())]


async def test_concurrent_upgrades_of_several_databases_make_the_roles_once(
    cluster: EmbeddedPostgres,
) -> None:
    for n in range(6):
        cluster.psql(f"create database d{n}")
    applied = await asyncio.gather(*(upgrade(cluster.url(f"d{n}")) for n in range(6)))
    assert {len(files) for files in applied} == {len(load_migrations())}
    assert cluster.psql("select count(*) from pg_roles where rolname like 'rewind%'") == "6"


async def test_user_who_may_create_roles_can_upgrade_without_being_superuser(
    cluster: EmbeddedPostgres,
) -> None:
    cluster.psql("create role deployer login createrole")
    cluster.psql("create database mine owner deployer")
    url = cluster.url("mine").replace("postgres@", "deployer@")
    assert await upgrade(url) == [migration.file for migration in load_migrations()]
    assert psql(url, "set role rewind_worker; select count(*) from entries") == "0"
    assert psql(url, "select tableowner from pg_tables where tablename = 'entries'") == "rewind_owner"


async def test_user_without_the_right_to_create_roles_is_told_so(cluster: EmbeddedPostgres) -> None:
    cluster.psql("create role plain login")
    cluster.psql("create database mine owner plain")
    with pytest.raises(MigrationFailed, match="needs CREATEROLE"):
        await upgrade(cluster.url("mine").replace("postgres@", "plain@"))


async def test_changed_applied_file_is_refused(empty_url: str, folder: Path) -> None:
    await upgrade(empty_url, folder=folder)
    (folder / "0001_one.sql").write_text("create table one (n bigint);\n")
    with pytest.raises(
        MigrationFailed, match=r"0001_one\.sql was changed after it was applied.*folder \.rewind"
    ):
        await upgrade(empty_url, folder=folder)
    with pytest.raises(MigrationFailed, match="was changed"):
        await status(empty_url, folder=folder)


async def test_a_file_below_an_applied_one_is_refused_as_such(empty_url: str, folder: Path) -> None:
    (folder / "0009_nine.sql").write_text("create table nine (n int);\n")
    await upgrade(empty_url, folder=folder)
    (folder / "0008_eight.sql").write_text("create table eight (n int);\n")
    with pytest.raises(MigrationFailed, match=r"0008_eight\.sql was added below 0009_nine"):
        await upgrade(empty_url, folder=folder)


async def test_database_of_a_later_build_is_refused(empty_url: str, folder: Path) -> None:
    await upgrade(empty_url, folder=folder)
    (folder / "0002_two.sql").unlink()
    with pytest.raises(MigrationFailed, match=r"0002_two, which this build does not know"):
        await upgrade(empty_url, folder=folder)


async def test_failing_file_names_its_line_and_leaves_the_earlier_ones(empty_url: str, folder: Path) -> None:
    (folder / "0002_two.sql").write_text("create table two (n int);\n\ncreate tabel three (n int);\n")
    with pytest.raises(MigrationFailed, match=r"0002_two.sql, line 3: syntax error"):
        await upgrade(empty_url, folder=folder)
    assert (await status(empty_url, folder=folder)).applied == ("0001_one.sql",)
    assert psql(empty_url, "select to_regclass('two') is null") == "t"


@pytest.mark.parametrize("name", ["0002_Two.sql", "two.sql", "0001_two.sql", "02_two.sql"])
def test_misnumbered_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "0001_one.sql").write_text("")
    (tmp_path / name).write_text("")
    with pytest.raises(MigrationFailed, match=r"expected NNNN_name.sql with a number of its own"):
        load_migrations(tmp_path)


async def test_migration_does_not_queue_for_locks(empty_url: str, folder: Path) -> None:
    await upgrade(empty_url, folder=folder)
    (folder / "0003_three.sql").write_text(
        "set local lock_timeout = '50ms';\nalter table one add column m int;\n"
    )
    reader = await asyncpg.connect(empty_url)
    try:
        async with reader.transaction():
            await reader.execute("select * from one")
            with pytest.raises(
                MigrationFailed, match=r"0003_three.sql: canceling statement due to lock timeout"
            ):
                await upgrade(empty_url, folder=folder)
    finally:
        await reader.close()


async def test_unreachable_database_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="cannot connect to the database"):
        await upgrade(f"postgresql://nobody@/x?host={tmp_path}")


ENTRY = (
    "insert into entries (namespace_id, run_id, seq, type, time, body) values "
    "('00000000-0000-0000-0000-000000000001', '00000000-0000-0000-0000-000000000002', 0, 1, 0, '{}')"
)


@pytest.mark.parametrize("role", ROLES)
async def test_planes_may_add_and_read_entries_and_nothing_else(database_url: str, role: str) -> None:
    connection = await connect(database_url, role)
    try:
        await connection.execute(ENTRY)
        assert await connection.fetchval("select count(*) from entries") == 1
        for change in ("update entries set time = 1", "delete from entries", "truncate entries"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(change)
    finally:
        await connection.close()


@pytest.mark.parametrize("role", [*ROLES, "rewind_retention"])
async def test_only_tests_move_the_clock(database_url: str, role: str) -> None:
    connection = await connect(database_url, role)
    try:
        assert await connection.fetchval("select now_ms()") > 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("update clock set offset_ms = 1")
    finally:
        await connection.close()


@pytest.mark.parametrize("table", ["organizations", "api_keys", "tokens", "idempotency"])
async def test_data_plane_sees_no_credential(database_url: str, table: str) -> None:
    connection = await connect(database_url, "rewind_worker")
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch(f"select * from {table}")
    finally:
        await connection.close()


async def test_no_plane_changes_the_schema(database_url: str) -> None:
    for role in (*ROLES, "rewind_retention", "rewind_test"):
        connection = await connect(database_url, role)
        try:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute("create table stray (n int)")
        finally:
            await connection.close()


def test_clock_advances_without_waiting(clock: Clock) -> None:
    before = clock.now()
    assert clock.advance(86_400_000) >= before + 86_400_000
    assert clock.now() >= before + 86_400_000
