"""Row-level security, attacked in SQL: as one tenant, every table shows and takes that tenant's rows only."""

import datetime as dt
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.postgres.reach import NOTHING, Reach
from tests.fixtures.database import connect

ZERO = UUID(int=0)
OPEN = {
    "clock": "the offset that tests move",
    "schema_migrations": "which files were applied",
    "workers": "processes of the deployment; the request role has no right to it",
}
"""Tables without row-level security, each with the reason."""
REQUEST = "rewind_request"


@dataclass
class Tenant:
    organization: UUID
    namespace: UUID
    sibling: UUID
    """Another namespace of the same organization."""

    def reach(self, **limits: Any) -> Reach:
        return Reach(organization=OrganizationId(str(self.organization)), **limits)

    def within(self, namespace: UUID, *, confined: bool) -> Reach:
        return self.reach(namespace=NamespaceId(str(namespace)), confined=confined)


@dataclass
class Table:
    name: str
    columns: dict[str, str]
    """Those without default that must be given, and those that say whose the row is, with their types."""

    @property
    def tenant_columns(self) -> set[str]:
        return self.columns.keys() & {"organization_id", "namespace_id"}

    def row(self, organization: UUID, namespace: UUID) -> dict[str, Any]:
        return {
            name: self._value(name, type_, organization, namespace) for name, type_ in self.columns.items()
        }

    def _value(self, name: str, type_: str, organization: UUID, namespace: UUID) -> Any:
        if name == "organization_id" or (self.name, name) == ("organizations", "id"):
            return organization
        if name == "namespace_id" or (self.name, name) == ("namespaces", "id"):
            return namespace
        values: dict[str, Any] = {
            "uuid": uuid4(),
            "bytea": uuid4().bytes,
            "jsonb": "{}",
            "boolean": False,
            "date": dt.date(2026, 1, 1),
            "text[]": [],
            "smallint[]": [],
        }
        return uuid4().hex if type_ == "text" else values.get(type_, 1)


_COLUMNS = """
select c.relname as name, a.attname as column, format_type(a.atttypid, null) as type
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and (a.attnotnull and not a.atthasdef
  and a.attidentity = '' or a.attname in ('organization_id', 'namespace_id'))
order by 1, a.attnum"""


async def tables_of(connection: asyncpg.Connection) -> list[Table]:
    found: dict[str, Table] = {}
    for row in await connection.fetch(_COLUMNS):
        found.setdefault(row["name"], Table(row["name"], {})).columns[row["column"]] = row["type"]
    return [table for table in found.values() if table.name not in OPEN]


async def insert(connection: asyncpg.Connection, table: Table, row: dict[str, Any]) -> None:
    places = ", ".join(f"${n}::{type_}" for n, type_ in enumerate(table.columns.values(), start=1))
    await connection.execute(
        f"insert into {table.name} ({', '.join(table.columns)}) values ({places})", *row.values()
    )


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """The superuser, with foreign keys, checks and triggers switched off: rows need not make sense to belong to somebody."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("set session_replication_role = replica")
    for row in await connection.fetch(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    ):
        await connection.execute(f"alter table {row['relname']} disable trigger user")
    for row in await connection.fetch(
        "select conrelid::regclass::text as name, conname from pg_constraint where contype = 'c'"
        " and connamespace = 'public'::regnamespace"
    ):
        await connection.execute(f"alter table {row['name']} drop constraint {row['conname']}")
    yield connection
    await connection.close()


@pytest.fixture
async def tenants(admin: asyncpg.Connection) -> tuple[Tenant, Tenant]:
    """Two tenants, each with a row in every table, in each of its two namespaces."""
    made = (Tenant(uuid4(), uuid4(), uuid4()), Tenant(uuid4(), uuid4(), uuid4()))
    for table in await tables_of(admin):
        for tenant in made:
            places = [tenant.namespace, tenant.sibling]
            if table.name != "namespaces" and "namespace_id" not in table.tenant_columns:
                places = places[:1]
            for namespace in places:
                await insert(admin, table, table.row(tenant.organization, namespace))
    return made


async def visible(connection: asyncpg.Connection, table: Table, reach: Reach) -> int | None:
    """How many rows of a table are seen; None: the role has no right to it at all."""
    async with connection.transaction():
        await connection.execute(reach.settings_sql)
        if not await connection.fetchval("select has_table_privilege($1, 'select')", table.name):
            return None
        return int(await connection.fetchval(f"select count(*) from {table.name}"))


async def test_every_table_has_its_policies_or_stands_in_the_list(admin: asyncpg.Connection) -> None:
    rows = await admin.fetch(
        "select c.relname as name, c.relrowsecurity and c.relforcerowsecurity as forced,"
        " array(select polname::text from pg_policy p where p.polrelid = c.oid order by 1) as policies"
        " from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
    )
    without = {row["name"] for row in rows if not row["forced"] or row["policies"] != ["system", "tenant"]}
    assert without == OPEN.keys()


async def test_a_tenant_sees_its_rows_and_nobody_elses(
    database_url: str, admin: asyncpg.Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    one, _ = tenants
    request = await connect(database_url, REQUEST)
    seen_somewhere = 0
    for table in await tables_of(admin):
        of_namespace = table.name == "namespaces" or "namespace_id" in table.tenant_columns
        of_tenant = of_namespace or table.name == "organizations" or "organization_id" in table.tenant_columns
        whole = await visible(request, table, one.reach())
        if whole is None:
            continue
        seen_somewhere += 1
        assert whole == (0 if not of_tenant else 2 if of_namespace else 1), table.name
        named = await visible(request, table, one.within(one.namespace, confined=False))
        assert named == (2 if table.name == "namespaces" else min(whole, 1)), table.name
        token = await visible(request, table, one.within(one.namespace, confined=True))
        keys_only = table.name in {"api_keys", "tokens", "secrets", "webhook_endpoints", "audit_log"}
        assert token == (0 if keys_only else min(whole, 1)), table.name
        assert await visible(request, table, NOTHING) == 0, table.name
    assert seen_somewhere > 20
    await request.close()


async def test_a_tenant_writes_changes_and_deletes_nothing_of_others(
    database_url: str, admin: asyncpg.Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    one, other = tenants
    request = await connect(database_url, REQUEST)
    refused = 0
    for table in await tables_of(admin):
        before = await admin.fetchval(f"select count(*) from {table.name}")
        rights = await request.fetchrow(
            "select has_any_column_privilege($1, 'insert') as insert, has_any_column_privilege($1, 'update') as update,"
            " has_table_privilege($1, 'delete') as delete",
            table.name,
        )
        if rights["insert"]:
            refused += 1
            for reach in (one.reach(), one.within(one.namespace, confined=True), NOTHING):
                with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
                    async with request.transaction():
                        await request.execute(reach.settings_sql)
                        await insert(request, table, table.row(other.organization, other.namespace))
        async with request.transaction():
            await request.execute(one.reach().settings_sql)
            column = await request.fetchval(
                "select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 0"
                " and not attisdropped and has_column_privilege($1, attnum, 'update') limit 1",
                table.name,
            )
            if column is not None:
                changed = await request.execute(f"update {table.name} set {column} = {column}")
                assert int(changed.split()[-1]) <= 2, table.name
            if rights["delete"]:
                deleted = await request.execute(f"delete from {table.name}")
                assert int(deleted.split()[-1]) <= 2, table.name
                left = await admin.fetchval(f"select count(*) from {table.name}")
                assert left == before, "nothing is committed yet"
        after = await admin.fetchval(f"select count(*) from {table.name}")
        own = 2 if "namespace_id" in table.tenant_columns else 1
        assert before - after == (own if rights["delete"] else 0), table.name
    assert refused > 10
    await request.close()


async def test_a_row_cannot_be_given_away(
    database_url: str, admin: asyncpg.Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    one, other = tenants
    request = await connect(database_url, REQUEST)
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with request.transaction():
            await request.execute(one.reach().settings_sql)
            await request.execute("update tokens set organization_id = $1", other.organization)
    await request.close()


async def test_the_owner_is_limited_too(
    database_url: str, admin: asyncpg.Connection, tenants: tuple[Tenant, Tenant]
) -> None:
    owner = await connect(database_url, "rewind_owner")
    assert await owner.fetchval("select count(*) from secrets") == 0
    await owner.close()
    assert await admin.fetchval("select count(*) from secrets") == 4


async def test_the_request_role_has_no_right_to_people_and_processes(database_url: str) -> None:
    request = await connect(database_url, REQUEST)
    for table in (
        "people",
        "sessions",
        "identities",
        "passkeys",
        "signups",
        "resets",
        "mails",
        "login_failures",
        "workers",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied"):
            await request.fetch(f"select from {table}")
    await request.close()
