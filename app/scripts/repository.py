"""Queries that scripts need beside the store's own; every one is keyed by namespace."""

from dataclasses import dataclass
from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import Digest, Epoch, Json, NamespaceId, TimeMs
from sandbox.store.postgres.connection import acquired

_VIEW = """select s.digest, s.created_at, c.toolset, c.input_type, c.output_type, c.warnings
from scripts s left join lateral (
  select * from checked_scripts c where c.namespace_id = s.namespace_id and c.script = s.digest
  order by c.epoch desc, c.checked_at desc limit 1) c on true
where s.namespace_id = $1"""

_KEEP = """with source as (
    insert into scripts (namespace_id, digest, source, created_at) values ($1, $2, $11, now_ms())
    on conflict do nothing),
  stripped as (
    insert into compiled_scripts (namespace_id, digest, epoch, compiled, created_at)
    values ($1, $2, $4, $12, now_ms()) on conflict do nothing)
  insert into checked_scripts (namespace_id, script, toolset_digest, epoch, toolset, checker, input_type,
    output_type, input_schema, warnings, checked_at)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, now_ms())
  on conflict (namespace_id, script, toolset_digest, epoch) do update set checker = excluded.checker,
    input_type = excluded.input_type, output_type = excluded.output_type, input_schema = excluded.input_schema,
    warnings = excluded.warnings, checked_at = excluded.checked_at"""


@dataclass(frozen=True, slots=True)
class Check:
    """What is kept of a check without errors."""

    input_type: str | None
    output_type: str | None
    input_schema: Json
    warnings: list[dict[str, Json]]


class ScriptRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def find_check(
        self, namespace: NamespaceId, script: Digest, toolset: str, epoch: Epoch, checker: str
    ) -> Check | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(
                "select c.input_type, c.output_type, c.input_schema, c.warnings from checked_scripts c "
                "join compiled_scripts p on p.namespace_id = c.namespace_id and p.digest = c.script "
                "and p.epoch = c.epoch where c.namespace_id = $1 and c.script = $2 and c.toolset_digest = $3 "
                "and c.epoch = $4 and c.checker = $5",
                namespace,
                script,
                toolset,
                epoch,
                checker,
            )
        if row is None:
            return None
        return Check(
            row["input_type"],
            row["output_type"],
            orjson.loads(row["input_schema"]),
            orjson.loads(row["warnings"]),
        )

    async def keep(
        self,
        namespace: NamespaceId,
        script: tuple[Digest, str],
        compiled: dict[str, Any],
        toolset: tuple[str | None, str],
        epoch: Epoch,
        checker: str,
        check: Check,
    ) -> None:
        """Store a script without errors, what it was made into, and what is known of it, in one commit.

        Shapes: script = digest and source; toolset = reference and digest, None and empty without tools.
        """
        async with acquired(self._pool) as connection:
            await connection.execute(
                _KEEP,
                namespace,
                script[0],
                toolset[1],
                epoch,
                toolset[0],
                checker,
                check.input_type,
                check.output_type,
                orjson.dumps(check.input_schema).decode(),
                orjson.dumps(check.warnings).decode(),
                script[1],
                orjson.dumps(compiled).decode(),
            )

    async def find(self, namespace: NamespaceId, digest: str) -> Any:
        async with acquired(self._pool) as connection:
            return await connection.fetchrow(
                f"select v.*, s.source from ({_VIEW} and s.digest = $2) v "
                "join scripts s on s.namespace_id = $1 and s.digest = v.digest",
                namespace,
                digest,
            )

    async def page(
        self, namespace: NamespaceId, *, before: tuple[TimeMs, str] | None, limit: int
    ) -> list[Any]:
        async with acquired(self._pool) as connection:
            rows: list[Any] = await connection.fetch(
                f"{_VIEW} and ($2::bigint is null or (s.created_at, s.digest) < ($2, $3)) "
                "order by s.created_at desc, s.digest desc limit $4",
                namespace,
                None if before is None else before[0],
                None if before is None else before[1],
                limit,
            )
        return rows
