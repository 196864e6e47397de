"""Bring a database to this build's schema: numbered SQL files, each in one transaction, never changed later.

An upgrade holds an advisory lock, so that any number of processes may start it at once. Roles come before the
migrations (`roles.sql`), policies and grants after them (`policies.sql`, `grants.sql`), all at every upgrade.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from infra.processes import InfraError

FOLDER = Path(__file__).parent / "migrations"
ROLES = Path(__file__).with_name("roles.sql")
GRANTS = Path(__file__).with_name("grants.sql")
POLICIES = Path(__file__).with_name("policies.sql")

POSTGRES_MIN = 15
CONNECT_TIMEOUT_S = 10.0
UPGRADER_WAIT = "120s"
"""How long an upgrade waits for another one."""
LOCK_TIMEOUT = "4s"
"""How long a migration may queue for a lock, and so block everyone behind it."""
STATEMENT_TIMEOUT = "5s"
"""A migration that needs longer begins with its own `set local statement_timeout`."""

_ADVISORY_KEY = 0x5265_7769_6E64
_ROLE_RACES_MAX = 10
_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")

_HISTORY = """
create table if not exists schema_migrations (
  version int primary key,
  name text not null,
  sha256 text not null,
  applied_at timestamptz not null default clock_timestamp()
)
"""


class MigrationFailed(InfraError):
    """The schema was left as the last complete migration made it."""


class DatabaseUnreachable(InfraError):
    """No connection to the database."""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def file(self) -> str:
        return f"{self.version:04}_{self.name}.sql"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """`applied` and `waiting` are file names in order."""

    applied: tuple[str, ...]
    waiting: tuple[str, ...]


def load_migrations(folder: Path = FOLDER) -> list[Migration]:
    """Read the migration files in the order of their numbers, each of which is used once."""
    found: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        match = _NAME.fullmatch(path.name)
        if match is None or (found and int(match[1]) <= found[-1].version):
            raise MigrationFailed(
                f"{path.name}: expected NNNN_name.sql with a number of its own, lower-case letters, digits and _"
            )
        found.append(Migration(int(match[1]), match[2], path.read_text()))
    return found


async def upgrade(url: str, *, folder: Path = FOLDER) -> list[str]:
    """Apply what is missing and return the names of the applied files.

    Errors: MigrationFailed with file and line; DatabaseUnreachable.
    """
    migrations = load_migrations(folder)
    async with _connected(url) as connection:
        await connection.execute(f"set lock_timeout = '{UPGRADER_WAIT}'")
        await connection.execute("select pg_advisory_lock($1)", _ADVISORY_KEY)
        await connection.execute(f"set lock_timeout = '{LOCK_TIMEOUT}'")
        await _apply_roles(connection)
        await connection.execute("set role rewind_owner")
        await connection.execute(_HISTORY)
        waiting = _compare(migrations, await _history(connection))
        await connection.execute(f"set statement_timeout = '{STATEMENT_TIMEOUT}'")
        for migration in waiting:
            async with connection.transaction():
                await _run(connection, migration.file, migration.sql)
                await connection.execute(
                    "insert into schema_migrations (version, name, sha256) values ($1, $2, $3)",
                    migration.version,
                    migration.name,
                    migration.sha256,
                )
        if folder == FOLDER:
            async with connection.transaction():
                await _run(connection, POLICIES.name, POLICIES.read_text())
                await _run(connection, GRANTS.name, GRANTS.read_text())
        return [migration.file for migration in waiting]


async def status(url: str, *, folder: Path = FOLDER) -> SchemaStatus:
    """Return what was applied and what an upgrade would apply; raises as an upgrade would."""
    migrations = load_migrations(folder)
    async with _connected(url) as connection:
        exists = await connection.fetchval("select to_regclass('public.schema_migrations') is not null")
        history = await _history(connection) if exists else []
        waiting = _compare(migrations, history)
        applied = tuple(f"{row['version']:04}_{row['name']}.sql" for row in history)
        return SchemaStatus(applied=applied, waiting=tuple(migration.file for migration in waiting))


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    try:
        connection = await asyncpg.connect(url, timeout=CONNECT_TIMEOUT_S)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        raise DatabaseUnreachable(
            f"cannot connect to the database: {error or type(error).__name__}"
        ) from error
    try:
        major = connection.get_server_version().major
        if major < POSTGRES_MIN:
            raise MigrationFailed(f"the server is Postgres {major}; Rewind needs {POSTGRES_MIN} or later")
        yield connection
    finally:
        await connection.close()


async def _history(connection: asyncpg.Connection) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await connection.fetch(
        "select version, name, sha256 from schema_migrations order by version"
    )
    return rows


def _compare(migrations: Sequence[Migration], history: Sequence[asyncpg.Record]) -> list[Migration]:
    """Return the migrations to apply, after checking that the applied ones are this build's, unchanged."""
    if len(history) > len(migrations):
        newest = history[-1]
        raise MigrationFailed(
            f"the database has migration {newest['version']:04}_{newest['name']}, which this build does not "
            "know: it was upgraded by a later build, use that one"
        )
    for migration, row in zip(migrations, history, strict=False):
        if row["version"] > migration.version:
            raise MigrationFailed(
                f"{migration.file} was added below {row['version']:04}_{row['name']}, which this database has "
                "already: give it a number above all others (data of development may be deleted instead: that of "
                "`rewind dev` is the folder .rewind)"
            )
        if (row["version"], row["sha256"]) != (migration.version, migration.sha256):
            raise MigrationFailed(
                f"{migration.file} was changed after it was applied to this database: restore the file and "
                "put the change into a new migration (data of development may be deleted instead: that of "
                "`rewind dev` is the folder .rewind)"
            )
    return list(migrations[len(history) :])


async def _apply_roles(connection: asyncpg.Connection) -> None:
    """Roles are shared by all databases, which no lock of one database guards: lost races are run again."""
    for attempt in range(_ROLE_RACES_MAX):
        try:
            await connection.execute(ROLES.read_text())
        except (asyncpg.UniqueViolationError, asyncpg.InternalServerError) as error:
            if attempt == _ROLE_RACES_MAX - 1:
                raise MigrationFailed(f"roles.sql: {error}") from error
            await asyncio.sleep(0.05 * (attempt + 1))
        except asyncpg.InsufficientPrivilegeError as error:
            raise MigrationFailed(
                f"{error}: the user of REWIND_DATABASE_URL needs CREATEROLE and must own the database, or an "
                "administrator makes the roles of infra/roles.sql and grants them to it"
            ) from error
        else:
            return


async def _run(connection: asyncpg.Connection, file: str, sql: str) -> None:
    try:
        await connection.execute(sql)
    except asyncpg.PostgresError as error:
        position = getattr(error, "position", None)
        line = sql[: int(position)].count("\n") + 1 if position else None
        where = file if line is None else f"{file}, line {line}"
        raise MigrationFailed(f"{where}: {error}") from error
