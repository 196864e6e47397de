"""All queries about workflows; each is limited to one organization."""

from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson

from sandbox.compiler.client import Checked
from sandbox.journal.ids import Digest, Epoch, OrganizationId, TimeMs
from sandbox.store.postgres.connection import acquired
from tenancy.ids import new_id
from tenancy.repository import now_ms

_COLUMNS = """v.name, v.digest, v.script, v.source, v.toolset, v.toolset_digest, v.description, v.epoch, v.checker,
  v.compiled, v.input_type, v.output_type, v.input_schema, v.output_schema, v.warnings, v.created_at"""
_VIEW = f"""select w.id, w.created_at as first_at, w.updated_at, {_COLUMNS}
from workflows w join workflow_versions v on v.organization_id = w.organization_id and v.name = w.name"""


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """What runs of a workflow are started with. `checker` and `epoch`: what `checked` was made by and for."""

    name: str
    digest: Digest
    script: Digest
    source: str
    toolset: tuple[str, Digest] | None
    description: str
    epoch: Epoch
    checker: str
    checked: Checked
    created_at: TimeMs
    """Given by the database when it is kept."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow at one of its versions."""

    id: str
    created_at: TimeMs
    updated_at: TimeMs
    version: WorkflowVersion


class WorkflowRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def put(self, organization: OrganizationId, version: WorkflowVersion) -> None:
        """Keep the version, and let it be the latest of its name."""
        async with acquired(self._pool) as connection, connection.transaction():
            now = await now_ms(connection)
            checked = version.checked
            await connection.execute(
                "insert into workflow_versions (organization_id, name, digest, script, source, toolset, toolset_digest, "
                "description, epoch, checker, compiled, input_type, output_type, input_schema, output_schema, warnings, "
                "created_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17) "
                "on conflict do nothing",
                organization,
                version.name,
                version.digest,
                version.script,
                version.source,
                *(version.toolset or (None, None)),
                version.description,
                version.epoch,
                version.checker,
                _text(checked.compiled),
                checked.input_type,
                checked.output_type,
                _text(checked.input_schema),
                _text(checked.output_schema),
                _text(checked.diagnostics),
                now,
            )
            await connection.execute(
                "insert into workflows as w (organization_id, id, name, digest, created_at, updated_at) "
                "values ($1, $2, $3, $4, $5, $5) on conflict (organization_id, name) do update "
                "set digest = excluded.digest, updated_at = excluded.updated_at where w.digest <> excluded.digest",
                organization,
                new_id(TimeMs(now)),
                version.name,
                version.digest,
                now,
            )

    async def find(self, organization: OrganizationId, name: str, digest: str | None) -> Workflow | None:
        """The workflow at that version; None: at its latest."""
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"{_VIEW} where w.organization_id = $1 and w.name = $2 and v.digest = coalesce($3, w.digest)",
                organization,
                name,
                digest,
            )
        return None if row is None else _workflow(row)

    async def find_version(
        self, organization: OrganizationId, name: str, digest: str
    ) -> WorkflowVersion | None:
        """Also of a workflow that was deleted since: what is pinned to a version goes on with it."""
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                f"select {_COLUMNS} from workflow_versions v "
                "where v.organization_id = $1 and v.name = $2 and v.digest = $3",
                organization,
                name,
                digest,
            )
        return None if row is None else _version(row)

    async def page(
        self, organization: OrganizationId, *, names: list[str] | None, before: str | None, limit: int
    ) -> list[Workflow]:
        """Latest versions, the newest workflow first; `names`: only of these."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"{_VIEW} and v.digest = w.digest where w.organization_id = $1 "
                "and ($2::text[] is null or w.name = any ($2)) and ($3::uuid is null or w.id < $3) "
                "order by w.id desc limit $4",
                organization,
                names,
                before,
                limit,
            )
        return [_workflow(row) for row in rows]

    async def versions(
        self, organization: OrganizationId, name: str, *, before: tuple[TimeMs, str] | None, limit: int
    ) -> list[WorkflowVersion]:
        """Those that came last first."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(
                f"select {_COLUMNS} from workflow_versions v where v.organization_id = $1 and v.name = $2 "
                "and ($3::bigint is null or (v.created_at, v.digest) < ($3, $4::text)) "
                "order by v.created_at desc, v.digest desc limit $5",
                organization,
                name,
                *(before or (None, None)),
                limit,
            )
        return [_version(row) for row in rows]

    async def delete(self, organization: OrganizationId, name: str) -> bool:
        async with acquired(self._pool) as connection:
            deleted = await connection.fetchval(
                "delete from workflows where organization_id = $1 and name = $2 returning true",
                organization,
                name,
            )
        return bool(deleted)


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def _workflow(row: Any) -> Workflow:
    return Workflow(str(row["id"]), TimeMs(row["first_at"]), TimeMs(row["updated_at"]), _version(row))


def _version(row: Any) -> WorkflowVersion:
    toolset = None if row["toolset"] is None else (row["toolset"], Digest(row["toolset_digest"]))
    checked = Checked(
        compiled=orjson.loads(row["compiled"]),
        diagnostics=orjson.loads(row["warnings"]),
        input_type=row["input_type"],
        output_type=row["output_type"],
        input_schema=orjson.loads(row["input_schema"]),
        output_schema=orjson.loads(row["output_schema"]),
    )
    return WorkflowVersion(
        name=row["name"],
        digest=Digest(row["digest"]),
        script=Digest(row["script"]),
        source=row["source"],
        toolset=toolset,
        description=row["description"],
        epoch=Epoch(row["epoch"]),
        checker=row["checker"],
        checked=checked,
        created_at=TimeMs(row["created_at"]),
    )
