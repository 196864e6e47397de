"""The edge side of the store: starts, events, reads. Used by the api, the dispatcher and the scheduler."""

from collections.abc import Sequence
from typing import Any, Self, TypeVar

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.hints import HintBus
from sandbox.store.interface import (
    FROM_START,
    EventAppend,
    EventOutcome,
    EventVerdict,
    StartOutcome,
    StartRun,
    StartVerdict,
    StoredEntry,
)
from sandbox.store.postgres.announcing import announce_event
from sandbox.store.postgres.approvals import Approvals
from sandbox.store.postgres.batcher import Batcher
from sandbox.store.postgres.calls import Calls
from sandbox.store.postgres.children import ChildRuns
from sandbox.store.postgres.connection import Link, acquired, create_pool, quota_exceeded
from sandbox.store.postgres.due import Due
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.reach import TenantPool, as_system
from sandbox.store.postgres.reads import Reads
from sandbox.store.postgres.scripts import Scripts
from sandbox.store.postgres.sealed import SealedEvent, SealedStart, seal_event, seal_start
from sandbox.store.postgres.starts import start
from sandbox.store.postgres.tasks import Tasks
from sandbox.store.postgres.values import refer
from sandbox.store.sealing import DataKey

POOL_SIZE = 10
STARTS_MAX = 16
"""In one commit: each is a statement of its own, and somebody else's start may wait for all of them."""
REQUEST_ROLE = "rewind_request"
APPEND_SQL = "select outcomes, seqs, times, owners from append_events($1,$2,$3,$4,$5,$6,$7,$8,$9)"


Edge = TypeVar("Edge", bound="PostgresEdge")


class PostgresEdge(Reads, Tasks, Calls, ChildRuns, Scripts, Due, Approvals):
    """Implements JournalStore. `await PostgresEdge.open(url, data_key=…)`, and `close()` at the end.

    Bodies are plain for its callers and sealed in the database.
    """

    def __init__(
        self,
        url: str,
        pool: asyncpg.Pool | TenantPool,
        *,
        role: str,
        data_key: DataKey,
        hints: HintBus | None = None,
    ) -> None:
        self.pool = pool
        # Whose key it is was decided by whoever reached the row; organizations ask the sandbox under a key of their own.
        self.own_pool: asyncpg.Pool = pool.system if isinstance(pool, TenantPool) else pool
        self.keys = NamespaceKeys(self.own_pool, data_key)
        self._hints = hints
        if hints is not None:
            hints.on_message(self.keys.on_hint)
        self._events = Link(url, role=role, name="events")
        self._starts = Link(url, role=role, name="starts")
        self.event_batcher: Batcher[SealedEvent, EventVerdict] = Batcher(
            self._commit_events, key=lambda item: item.key
        )
        self.start_batcher: Batcher[SealedStart, StartVerdict] = Batcher(
            self._commit_starts, key=lambda item: item.key, most=STARTS_MAX
        )

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        data_key: DataKey,
        role: str = "rewind_api",
        size: int = POOL_SIZE,
        hints: HintBus | None = None,
    ) -> Self:
        """With `hints`, workers are told of what was committed here.

        Errors: Unavailable; SettingsError when `data_key` is not the one that this database is sealed with.
        """
        pool = await create_pool(url, role=role, name="edge", size=size)
        return await cls._checked(cls(url, pool, role=role, data_key=data_key, hints=hints))

    @classmethod
    async def serving(
        cls,
        url: str,
        *,
        data_key: DataKey,
        role: str = "rewind_api",
        request_role: str = REQUEST_ROLE,
        size: int = POOL_SIZE,
        hints: HintBus | None = None,
    ) -> Self:
        """For a process that serves tenants: what is not done `as_system` is done under `request_role`, for one tenant.

        Appends and leases are the system's in any case. Errors: those of `open`.
        """
        system = await create_pool(url, role=role, name="edge", size=size)
        try:
            scoped = await create_pool(url, role=request_role, name="requests", size=size)
        except BaseException:
            await system.close()
            raise
        pool = TenantPool(scoped, system, each=max(1, size * 2 // 5))
        return await cls._checked(cls(url, pool, role=role, data_key=data_key, hints=hints))

    @staticmethod
    async def _checked(store: "Edge") -> "Edge":
        try:
            with as_system():
                await store.keys.check()
        except BaseException:
            await store.pool.close()
            raise
        return store

    async def close(self) -> None:
        await self._events.close()
        await self._starts.close()
        await self.pool.close()

    async def now(self) -> TimeMs:
        async with acquired(self.pool) as connection:
            return TimeMs(await connection.fetchval("select now_ms()"))

    async def append_event(self, event: EventAppend) -> EventVerdict:
        """Append one event if its guard holds; concurrent callers share a commit.

        Errors: Unavailable when the database was lost: the event may or may not be recorded, and the same
        call again is harmless (its guard answers). DataErased.
        """
        verdict = await self.event_batcher.put(await seal_event(self.keys, event))
        recorded = verdict.outcome is EventOutcome.APPENDED and verdict.seq is not None
        if self._hints is not None and recorded:
            announce_event(self._hints, event, verdict)
        return verdict

    async def start_run(self, request: StartRun) -> StartVerdict:
        """Record the run and its run_started, or answer what its idempotency key started before.

        Errors: QuotaExceeded; Unavailable.
        """
        verdict = await self.start_batcher.put(await seal_start(self.keys, request))
        if verdict.refusal is not None:
            raise quota_exceeded(verdict.refusal)
        if self._hints is not None and verdict.outcome is StartOutcome.STARTED:
            self._hints.send("worker", {"k": "ready"})
        return verdict

    async def erase_namespace(self, namespace: NamespaceId) -> int:
        """Destroy the key of all its data, in every process; how many active runs that stopped."""
        stopped = await self.keys.destroy(namespace)
        self.tell_erased(namespace)
        return stopped

    def tell_erased(self, namespace: NamespaceId) -> None:
        """The key of this namespace is destroyed: no process goes on with it."""
        message = {"k": "erased", "namespace": namespace}
        self.keys.on_hint(message)
        if self._hints is not None:
            for role in ("api", "worker"):
                self._hints.send(role, message)

    def tell_ready(self) -> None:
        """Runs wait for an owner."""
        if self._hints is not None:
            self._hints.send("worker", {"k": "ready"})

    async def _commit_events(self, batch: Sequence[SealedEvent]) -> list[EventVerdict]:
        async def append(connection: asyncpg.Connection) -> Any:
            if not any(item.named for item in batch):
                return await _append_events(connection, batch)
            async with connection.transaction():
                row = await _append_events(connection, batch)
                await refer(
                    connection,
                    [
                        (item.event.namespace, item.named, item.event.run)
                        for item, outcome in zip(batch, row["outcomes"], strict=True)
                        if item.named is not None and outcome == EventOutcome.APPENDED
                    ],
                )
                return row

        row = await self._events.call(append)
        return [
            EventVerdict(EventOutcome(outcome), seq, time, owner)
            for outcome, seq, time, owner in zip(*row, strict=True)
        ]

    async def _commit_starts(self, batch: Sequence[SealedStart]) -> list[StartVerdict]:
        async def run(connection: asyncpg.Connection) -> list[StartVerdict]:
            if len(batch) == 1 and batch[0].named is None:
                return [await start(connection, batch[0])]
            async with connection.transaction():
                verdicts = [await start(connection, item) for item in batch]
                await refer(
                    connection,
                    [
                        (item.start.namespace, item.named, item.start.run)
                        for item, verdict in zip(batch, verdicts, strict=True)
                        if item.named is not None and verdict.outcome is StartOutcome.STARTED
                    ],
                )
                return verdicts

        verdicts: list[StartVerdict] = await self._starts.call(run)
        return verdicts

    async def read_entries(
        self, namespace: NamespaceId, run: RunId, *, after: Seq = FROM_START, limit: int = 500
    ) -> list[StoredEntry]:
        return await self._read_entries(namespace, run, after, limit)


async def _append_events(connection: asyncpg.Connection, batch: Sequence[SealedEvent]) -> Any:
    events = [item.event for item in batch]
    return await connection.fetchrow(
        APPEND_SQL,
        [event.namespace for event in events],
        [event.run for event in events],
        [event.guard for event in events],
        [item.n for item in batch],
        [event.attempt for event in events],
        [event.signal_id for event in events],
        [event.type for event in events],
        [item.body for item in batch],
        [event.not_before for event in events],
    )
