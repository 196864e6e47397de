"""The schema in the repository is what the migrations make, and every table has its grants."""

import re

from infra.migrate import FOLDER, GRANTS, load_migrations
from infra.postgres_programs import psql
from infra.schema_dump import SNAPSHOT, dump_schema


def test_snapshot_is_what_the_migrations_make(database_url: str) -> None:
    assert dump_schema(database_url) == SNAPSHOT.read_text(), "run `make db` and review the difference"


def test_migrations_are_numbered_without_gaps() -> None:
    migrations = load_migrations()
    assert migrations, "no migration found"
    assert len(migrations) == len(list(FOLDER.iterdir())), "a file in infra/migrations is no migration"


def test_every_table_is_named_in_the_grants(database_url: str) -> None:
    tables = psql(database_url, "select tablename from pg_tables where schemaname = 'public'").split()
    granted = set(re.findall(r"\w+", GRANTS.read_text()))
    assert [table for table in tables if table not in granted] == []
