"""Leases of host-tool calls: claims, heartbeats, deferrals, releases. Settling a task is an event append."""

from collections.abc import Sequence
from typing import Any

import asyncpg

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.interface import Task, TaskFilter
from sandbox.store.postgres.batcher import RETRIED, RETRIES_MAX
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.rows import json_of
from sandbox.store.sealing import NamespaceSeal, entry_place

TaskKey = tuple[NamespaceId, RunId, int, int, int]
"""(namespace, run, call, attempt, releases): one lease of a call, what a task's token stands for."""


def key_of(task: Task) -> TaskKey:
    return (task.namespace, task.run, task.call, task.attempt, task.releases)


_ARGS_PLACE = entry_place(EntryType.SCHEDULE_TOOL_CALL)


def open_args(key: NamespaceSeal, run: RunId, body: bytes) -> bytes:
    """The body of a schedule_tool_call entry."""
    return key.of(run).open(body, _ARGS_PLACE)


class Tasks:
    pool: asyncpg.Pool
    keys: NamespaceKeys

    async def claim_tasks(self, wanted: TaskFilter, claim_id: str, limit: int, lease_ms: int) -> list[Task]:
        """Lease calls to `claim_id` until it holds `limit`; what it holds already comes again, first.

        The lease is durable before this returns: the call has begun.
        """
        rows = await self._rows(
            "select * from claim_tasks($1, $2, $3, $4, $5, $6, $7)",
            wanted.organization,
            wanted.namespace,
            wanted.toolset,
            None if wanted.tools is None else list(wanted.tools),
            claim_id,
            limit,
            lease_ms,
        )
        keys = await self.keys.known({NamespaceId(str(row["namespace_id"])) for row in rows})
        return [
            Task(
                namespace=namespace,
                run=RunId(str(row["run_id"])),
                call=row["n"],
                tool=row["name"],
                attempt=row["attempt"],
                begun_at=TimeMs(row["begun_at"]),
                lease_until=TimeMs(row["lease_until"]),
                stopping=row["stopping"],
                body=open_args(keys[namespace], RunId(str(row["run_id"])), row["body"]),
                namespace_name=row["namespace_name"],
                labels=json_of(row["labels"]) or {},
                releases=row["releases"],
            )
            for row in rows
            if (namespace := NamespaceId(str(row["namespace_id"]))) in keys
        ]

    async def heartbeat_tasks(
        self, tasks: Sequence[TaskKey], lease_ms: int
    ) -> list[tuple[TimeMs | None, bool]]:
        """For each task its new lease and whether it is told to stop; None: settled or superseded."""
        rows = await self._each(
            "select lease_until, stopping from heartbeat_tasks($1,$2,$3,$4,$5,$6)", tasks, lease_ms
        )
        return [(row["lease_until"], bool(row["stopping"])) for row in rows]

    async def defer_tasks(self, tasks: Sequence[TaskKey], expires_ms: Sequence[int | None]) -> list[bool]:
        rows = await self._each("select ok from defer_tasks($1,$2,$3,$4,$5,$6)", tasks, list(expires_ms))
        return [row["ok"] for row in rows]

    async def release_tasks(self, tasks: Sequence[TaskKey], after_ms: Sequence[int | None]) -> list[bool]:
        """Give tasks back that were not started; `after_ms`: not offered again before that."""
        rows = await self._each("select ok from release_tasks($1,$2,$3,$4,$5,$6)", tasks, list(after_ms))
        return [row["ok"] for row in rows]

    async def give_back_tasks(self, tasks: Sequence[tuple[TaskKey, TimeMs]]) -> None:
        """Release leases that end then; one that ends later by now was handed out elsewhere, and stays."""
        columns = [list(column) for column in zip(*(key for key, _ in tasks), strict=True)]
        if columns:
            ends = [end for _, end in tasks]
            await self._rows(
                "select ok from release_tasks($1,$2,$3,$4,$5,$6,$7)", *columns, [None] * len(ends), ends
            )

    async def _each(self, sql: str, tasks: Sequence[TaskKey], last: Any) -> list[Any]:
        columns = [list(column) for column in zip(*tasks, strict=True)]
        return await self._rows(sql, *columns, last) if columns else []

    async def _rows(self, sql: str, *values: Any) -> list[Any]:
        for attempt in range(1, RETRIES_MAX + 1):
            try:
                async with acquired(self.pool) as connection:
                    rows: list[Any] = await connection.fetch(sql, *values)
                    return rows
            except RETRIED:  # met a batch of completions of the same tasks, in another order
                if attempt == RETRIES_MAX:
                    raise
        raise AssertionError("unreachable: the last attempt returns or raises")
