"""The worker's side of the store: its registration, its claims, its command appends.

A worker lives as long as the session that holds its advisory lock: kill -9 closes the socket, which frees
the lock, and anyone may give its runs to others at once.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Any, Self

import asyncpg
import orjson

from sandbox.config import build_version
from sandbox.journal.ids import (
    Digest,
    Epoch,
    Json,
    NamespaceId,
    OrganizationId,
    RunId,
    Seq,
    TimeMs,
    WorkerId,
)
from sandbox.store.forks import ForkAppend
from sandbox.store.hints import HintBus
from sandbox.store.interface import (
    EVERYTHING,
    ClaimedRun,
    CommandAppend,
    CommandDraft,
    CommandVerdict,
    RunFacts,
    Share,
)
from sandbox.store.postgres.batcher import Batcher
from sandbox.store.postgres.connection import Link, acquired, connect
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.forks import append_fork, fork_order
from sandbox.store.postgres.keys import DataErased
from sandbox.store.postgres.rows import json_of
from sandbox.store.postgres.sealed import SealedCommands, seal_commands
from sandbox.store.postgres.values import refer
from sandbox.store.sealing import REPORT_PLACE, DataKey

logger = logging.getLogger(__name__)

HEARTBEAT_S = 2.0
POOL_SIZE = 4
STALE_MS = 10_000
"""A worker not heard of for so long is superseded, though its lock may be held (a paused process)."""
APPEND_SQL = (
    "select appended, firsts, nexts, at from append_commands(" + ",".join(f"${n}" for n in range(1, 32)) + ")"
)
FACTS_SQL = """select r.epoch, r.cpu_us, r.forking, f.parent, f.fork, s.name, f.organization_id, f.script, f.toolset, f.labels, c.compiled, t.definition
  from runs r
  join run_facts f on f.namespace_id = r.namespace_id and f.run_id = r.run_id
  join namespaces s on s.id = r.namespace_id
  join compiled_scripts c on c.namespace_id = r.namespace_id and c.digest = f.script and c.epoch = r.epoch
  left join toolset_versions t
    on t.organization_id = f.organization_id and t.name = f.toolset and t.digest = f.toolset_digest
  where r.namespace_id = $1 and r.run_id = $2 and (f.toolset is null or t.digest is not null)"""


class PostgresOwner(PostgresEdge):
    """Implements OwnerStore. One per worker process."""

    def __init__(
        self,
        url: str,
        pool: asyncpg.Pool,
        *,
        role: str,
        data_key: DataKey,
        hints: HintBus | None = None,
    ) -> None:
        super().__init__(url, pool, role=role, data_key=data_key, hints=hints)
        self._url = url
        self._role = role
        self._session: asyncpg.Connection | None = None
        self._commands = Link(url, role=role, name="commands")
        self._claims = Link(url, role=role, name="claims")
        self.command_batcher: Batcher[SealedCommands, CommandVerdict] = Batcher(
            self._commit_commands, key=lambda item: item.key
        )
        self.on_batch: Callable[[Sequence[CommandAppend]], None] | None = None
        """Called with the appends of each commit as it begins."""
        self.worker = WorkerId(0)
        self.asked_to_drain = asyncio.Event()
        """An operator wants this worker to leave."""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        data_key: DataKey,
        role: str = "rewind_worker",
        size: int = POOL_SIZE,
        hints: HintBus | None = None,
    ) -> Self:
        return await super().open(url, data_key=data_key, role=role, size=size, hints=hints)

    async def register(self, epochs: Sequence[Epoch]) -> WorkerId:
        """Take a fresh id and its lock. Called again after the session was lost: always a new id."""
        if self._session is not None:
            self._session.terminate()
        worker = WorkerId(secrets.randbits(62) | 1)
        session = await connect(self._url, role=self._role, name=f"worker {worker}", planner=False)
        await session.execute("select pg_advisory_lock($1)", worker)
        await session.execute(
            "insert into workers (worker_id, host, pid, started_at, heartbeat_at, epochs, version)"
            " values ($1, $2, $3, now_ms(), now_ms(), $4, $5)",
            worker,
            socket.gethostname(),
            os.getpid(),
            list(epochs),
            build_version(),
        )
        self._session, self.worker = session, worker
        return worker

    async def heartbeat(self) -> bool:
        """False: this worker was superseded or its session is lost; everything it owns may be another's."""
        if self._session is None or self._session.is_closed():
            return False
        try:
            row = await self._session.fetchrow(
                "update workers set heartbeat_at = now_ms() where worker_id = $1 returning drain_asked_at",
                self.worker,
            )
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
            logger.warning("the worker's session is lost", exc_info=True)
            return False
        if row is not None and row["drain_asked_at"] is not None:
            self.asked_to_drain.set()
        return row is not None

    async def deregister(self) -> None:
        """Leave; what this worker still owns, such as a claim that was cut short, is free for others."""
        session, self._session = self._session, None
        if session is not None and not session.is_closed():
            await session.execute("update workers set heartbeat_at = 0 where worker_id = $1", self.worker)
            await session.execute("select reap_workers(1)")
            await session.close(timeout=5)

    async def close(self) -> None:
        await self._commands.close()
        await self._claims.close()
        await super().close()

    async def reap_workers(self) -> int:
        """Free the runs of dead and superseded workers; how many workers that were."""
        rows = await self._claims.call(
            lambda connection: connection.fetch(
                "select worker_id, runs from reap_workers(now_ms() - $1)", STALE_MS
            )
        )
        for row in rows:
            logger.warning("worker %s is gone; %d runs are free", row["worker_id"], row["runs"])
        return len(rows)

    async def claim_runs(
        self, worker: WorkerId, epochs: Sequence[Epoch], limit: int, share: Share = EVERYTHING
    ) -> list[ClaimedRun]:
        rows = await self._claims.call(
            lambda connection: connection.fetch(
                "select * from claim_runs($1, $2, $3, $4, $5, $6)",
                worker,
                list(epochs),
                limit,
                list(share.busy),
                list(share.busy.values()),
                share.most,
            )
        )
        return [
            ClaimedRun(
                NamespaceId(str(row["namespace_id"])),
                RunId(str(row["run_id"])),
                Epoch(row["epoch"]),
                row["owner_epoch"],
                row["commands"],
                Seq(row["delivered"]),
                Seq(row["next_seq"]),
            )
            for row in rows
        ]

    async def release_runs(self, worker: WorkerId, runs: Sequence[tuple[NamespaceId, RunId]]) -> int:
        """Own them no longer; how many of them wait for a new owner already."""
        namespaces, ids = [ns for ns, _ in runs], [run for _, run in runs]
        waiting: int = await self._claims.call(
            lambda connection: connection.fetchval("select release_runs($1, $2, $3)", worker, namespaces, ids)
        )
        return waiting

    async def overdue_runs(self, worker: WorkerId, limit: int) -> list[tuple[NamespaceId, RunId]]:
        """Owned runs with events that were not delivered: what a lost hint leaves behind."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                "select namespace_id, run_id from runs where owner = $1 and last_event > delivered limit $2",
                worker,
                limit,
            )
        return [(NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"]))) for row in rows]

    async def append_commands(self, append: CommandAppend) -> CommandVerdict:
        """Append what the owner's activations did; concurrent runs share a commit.

        Errors: Unavailable when the database was lost: the run must then be dropped from memory and
        loaded again, for its commands may or may not be recorded. DataErased.
        """
        return await self.command_batcher.put(await seal_commands(self.keys, append))

    async def _commit_commands(self, batch: Sequence[SealedCommands]) -> list[CommandVerdict]:
        if self.on_batch is not None:
            self.on_batch([item.append for item in batch])

        async def commit(connection: asyncpg.Connection) -> Any:
            statement = (APPEND_SQL, *_run_columns(batch), *_command_columns(batch))
            if not any(item.named for item in batch):
                return await connection.fetchrow(*statement)
            async with connection.transaction():
                row = await connection.fetchrow(*statement)
                await refer(
                    connection,
                    [
                        (item.append.namespace, sha256, item.append.run)
                        for item, appended in zip(batch, row["appended"], strict=True)
                        for sha256 in item.named
                        if appended
                    ],
                )
                return row

        row = await self._commands.call(commit)
        at = TimeMs(row["at"])
        return [
            CommandVerdict(bool(appended), Seq(first or 0), Seq(after or 0), at)
            for appended, first, after in zip(row["appended"], row["firsts"], row["nexts"], strict=True)
        ]

    async def append_fork(self, append: ForkAppend) -> CommandVerdict:
        """Append a chunk of what a fork reuses. Errors as those of append_commands."""
        return await append_fork(self.pool, self.keys, append)

    async def quarantine(
        self, namespace: NamespaceId, run: RunId, report: dict[str, Json], owner_epoch: int | None = None
    ) -> None:
        """Stop executing the run until an operator decides; its events are recorded all the same."""
        try:
            key = await self.keys.of(namespace)
        except DataErased:
            return  # it was stopped when its namespace was erased, and nothing more can be said of it
        sealed = key.of(run).seal(orjson.dumps(report), REPORT_PLACE)
        async with acquired(self.pool) as connection:
            await connection.execute(
                "select quarantine_run($1, $2, $3, $4, $5)",
                self.worker,
                namespace,
                run,
                sealed,
                owner_epoch,
            )

    async def load_facts(self, namespace: NamespaceId, run: RunId) -> RunFacts | None:
        """None when the run, its script or its toolset version is gone."""
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(FACTS_SQL, namespace, run)
        if row is None:
            return None
        definition = json_of(row["definition"]) or {}
        return RunFacts(
            namespace=namespace,
            namespace_name=row["name"],
            organization=OrganizationId(str(row["organization_id"])),
            run=run,
            epoch=Epoch(row["epoch"]),
            script=Digest(row["script"]),
            compiled=json_of(row["compiled"]),
            toolset=row["toolset"],
            tools=tuple(tool for tool in definition.get("tools", ()) if "disabled" not in tool),
            labels=json_of(row["labels"]) or {},
            cpu_us=row["cpu_us"],
            fork=fork_order(row["parent"], row["fork"]) if row["forking"] else None,
            is_child=(json_of(row["parent"]) or {}).get("kind") == "workflow",
        )

    async def load_definition(
        self, organization: OrganizationId, toolset: str, digest: Digest
    ) -> dict[str, Any] | None:
        """A pinned toolset; None when there is no such version."""
        async with acquired(self.pool) as connection:
            text = await connection.fetchval(
                "select definition from toolset_versions where organization_id = $1 and name = $2 and digest = $3",
                organization,
                toolset,
                digest,
            )
        definition: dict[str, Any] | None = json_of(text)
        return definition

    async def unbegun_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, deferred: bool
    ) -> list[tuple[int, int]]:
        """(call, attempt) of what may be withdrawn: not begun and, if `deferred`, those put off to later.

        `below`: only calls with a smaller number.
        """
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                "select n, attempt from pending where namespace_id = $1 and run_id = $2 and kind = 0"
                " and (attempt = 0 or (deferred and $4)) and ($3::int is null or n < $3) order by n",
                namespace,
                run,
                below,
                deferred,
            )
        return [(row["n"], row["attempt"]) for row in rows]

    async def stop_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, only_children: bool = False
    ) -> None:
        """Tell begun calls, or those of workflows, to stop.

        30 s later the scheduler completes them with OutcomeUnknownError.
        """
        async with acquired(self.pool) as connection:
            await connection.execute(
                "update pending set stopping = true, due = now_ms() + 30000, due_why = 2"
                " where namespace_id = $1 and run_id = $2 and kind = 0 and attempt > 0 and not stopping"
                " and ($3::int is null or n < $3)"
                " and (not $4 or (route = 1 and name like 'workflows.%'))",
                namespace,
                run,
                below,
                only_children,
            )

    async def count_calls(self, namespace: NamespaceId, run: RunId) -> int:
        async with acquired(self.pool) as connection:
            count: int = await connection.fetchval(
                "select count(*) from pending where namespace_id = $1 and run_id = $2 and kind = 0",
                namespace,
                run,
            )
            return count


def _run_columns(items: Sequence[SealedCommands]) -> list[object]:
    batch = [item.append for item in items]
    return [
        batch[0].worker,
        [append.namespace for append in batch],
        [append.run for append in batch],
        [append.owner_epoch for append in batch],
        [append.commands_before for append in batch],
        [append.delivered for append in batch],
        [append.cpu_us for append in batch],
        [append.activations for append in batch],
        [append.organization for append in batch],
        [append.toolset for append in batch],
        [item.progress for item in items],
        ["{" + ",".join(map(str, append.waits_done)) + "}" for append in batch],
        [sum(draft.type == 2 for draft in append.commands) for append in batch],
        [len(append.commands) for append in batch],
    ]


def _command_columns(items: Sequence[SealedCommands]) -> list[object]:
    drafts: list[CommandDraft] = [draft for item in items for draft in item.append.commands]
    return [
        [draft.type for draft in drafts],
        [draft.cause for draft in drafts],
        [draft.time for draft in drafts],
        [body for item in items for body in item.bodies],
        [draft.n for draft in drafts],
        [draft.name for draft in drafts],
        [draft.line for draft in drafts],
        [draft.due for draft in drafts],
        [draft.delay_ms for draft in drafts],
        [draft.route for draft in drafts],
        [draft.idempotent for draft in drafts],
        [draft.gated for draft in drafts],
        [draft.timeout_ms for draft in drafts],
        [draft.claim_id for draft in drafts],
        [withdrawn for item in items for withdrawn in item.withdrawn],
        [draft.expires_ms for draft in drafts],
        [draft.pace for draft in drafts],
    ]
