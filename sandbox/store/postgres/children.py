"""Child runs as the dispatcher sees them: started once per call, their ends told, and whom to cancel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.hints import HintBus
from sandbox.store.interface import RunStatus, StartRun
from sandbox.store.postgres.batcher import RETRIED, RETRIES_MAX
from sandbox.store.postgres.calls import CallKey
from sandbox.store.postgres.connection import acquired, quota_exceeded
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.rows import json_of
from sandbox.store.postgres.sealed import SealedStart, seal_start
from sandbox.store.postgres.starts import start
from sandbox.store.postgres.values import refer

_PLACE = """select p.since, p.stopping, f.deadline, f.parent, now_ms() as now from pending p
  join run_facts f on f.namespace_id = p.namespace_id and f.run_id = p.run_id
  where p.namespace_id = $1 and p.run_id = $2 and p.kind = 0 and p.n = $3 and p.claim_id = $4"""
_STARTED = """select run_id from run_facts where namespace_id = $1 and parent ->> 'run' = $2::uuid::text
  and parent ->> 'kind' = 'workflow' and (parent ->> 'call')::int = $3"""
_NEWS = """select o.namespace_id, o.run_id, o.orphaned, o.ident, f.status, f.end_seq, f.workflow, f.parent
  from child_outbox o join run_facts f on f.namespace_id = o.namespace_id and f.run_id = o.run_id
  order by o.at limit $1"""
_FORGET = """delete from child_outbox o
  using unnest($1::uuid[], $2::uuid[], $3::boolean[], $4::uuid[]) d (ns, run, orphaned, ident)
  where o.namespace_id = d.ns and o.run_id = d.run and o.orphaned = d.orphaned and o.ident = d.ident"""
_WAITERS = """select run_id, n, attempt, begun_at from pending
  where claim_id = $2 and namespace_id = $1 and kind = 0 and lease_until is null"""
_STOPPING = """select p.namespace_id, p.run_id, p.claim_id
  from pending p join runs c on c.namespace_id = p.namespace_id and c.run_id = p.claim_id
  where p.kind = 0 and p.stopping and p.claim_id is not null and p.lease_until is null
    and c.status in (0, 5) and c.cancel_seq is null limit $1"""


class ChildStart(StrEnum):
    NEW = "new"
    KNOWN = "known"
    """It had been started before."""
    GONE = "gone"
    """The call is not this claim's any more: nothing was done."""


@dataclass(frozen=True, slots=True)
class CallPlace:
    """What the child of a call needs to know of the call and its run."""

    since: TimeMs
    stopping: bool
    deadline: TimeMs
    """Of the run that calls."""
    depth: int
    """How many workflows deep that run is; 0: nobody called it."""
    now: TimeMs


@dataclass(frozen=True, slots=True)
class ChildNews:
    """A child that has ended; `orphaned`: one that is to be cancelled."""

    namespace: NamespaceId
    run: RunId
    orphaned: bool
    status: RunStatus
    end_seq: Seq | None
    workflow: str
    parent: RunId
    ident: str
    """What is told of the same child later is other news."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A call that waits for a child."""

    run: RunId
    call: int
    attempt: int
    begun_at: TimeMs | None


class ChildRuns:
    pool: asyncpg.Pool
    keys: NamespaceKeys
    _hints: HintBus | None

    async def call_place(self, call: CallKey, claim_id: str) -> CallPlace | None:
        """None: the call is not this claim's any more."""
        async with acquired(self.pool) as connection:
            row = await connection.fetchrow(_PLACE, *call, claim_id)
        if row is None:
            return None
        return CallPlace(
            TimeMs(row["since"]),
            row["stopping"],
            TimeMs(row["deadline"]),
            depth_of(json_of(row["parent"])),
            TimeMs(row["now"]),
        )

    async def started_child(self, call: CallKey) -> RunId | None:
        """The run that this call of a workflow has started."""
        async with acquired(self.pool) as connection:
            found = await connection.fetchval(_STARTED, *call)
        return None if found is None else RunId(str(found))

    async def start_child(
        self, call: CallKey, claim_id: str, child: RunId, request: StartRun | None, *, awaited: bool
    ) -> ChildStart:
        """Start the child of a call, unless it was started before; `awaited`: it then has the call.

        `request` None: it was started before. Errors: Unavailable; again is harmless. QuotaExceeded, DataErased.
        """
        sealed = None if request is None else await seal_start(self.keys, request)
        for attempt in range(1, RETRIES_MAX + 1):
            try:
                async with acquired(self.pool) as connection, connection.transaction():
                    done, refusal = await _start_child(
                        connection, call, claim_id, child, sealed, awaited=awaited
                    )
                break
            except RETRIED:
                if attempt == RETRIES_MAX:
                    raise
        if refusal is not None:
            raise quota_exceeded(refusal)
        if self._hints is not None and done is ChildStart.NEW:
            self._hints.send("worker", {"k": "ready"})
        return done

    async def read_child_news(self, limit: int) -> list[ChildNews]:
        """What nobody has handled yet, the oldest first."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(_NEWS, limit)
        return [
            ChildNews(
                namespace=NamespaceId(str(row["namespace_id"])),
                run=RunId(str(row["run_id"])),
                orphaned=row["orphaned"],
                status=RunStatus(row["status"]),
                end_seq=None if row["end_seq"] is None else Seq(row["end_seq"]),
                workflow=row["workflow"] or "",
                parent=RunId(json_of(row["parent"])["run"]),
                ident=str(row["ident"]),
            )
            for row in rows
        ]

    async def forget_child_news(self, handled: Sequence[ChildNews]) -> None:
        """These, and not what came after them: a call that a child got meanwhile was not among those told."""
        async with acquired(self.pool) as connection:
            await connection.execute(
                _FORGET,
                [news.namespace for news in handled],
                [news.run for news in handled],
                [news.orphaned for news in handled],
                [news.ident for news in handled],
            )

    async def calls_held_by(self, namespace: NamespaceId, child: RunId) -> list[Waiter]:
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(_WAITERS, namespace, child)
        return [Waiter(RunId(str(row["run_id"])), row["n"], row["attempt"], row["begun_at"]) for row in rows]

    async def children_to_stop(self, limit: int) -> list[tuple[NamespaceId, RunId, RunId]]:
        """(namespace, parent, child) of calls that are told to stop and wait for a child which is not cancelled yet."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(_STOPPING, limit)
        return [
            (NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"])), RunId(str(row["claim_id"])))
            for row in rows
        ]


def depth_of(parent: Mapping[str, object] | None) -> int:
    """How many workflows deep a run is, from its parent as it is stored."""
    depth = (parent or {}).get("depth", 0)
    return depth if isinstance(depth, int) else 0


async def _start_child(
    connection: asyncpg.Connection,
    call: CallKey,
    claim_id: str,
    child: RunId,
    sealed: SealedStart | None,
    *,
    awaited: bool,
) -> tuple[ChildStart, dict[str, Any] | None]:
    """What was found and done; and of a child that is not started, which quota is used up."""
    found = ChildStart(
        await connection.fetchval("select claim_child($1,$2,$3,$4,$5)", claim_id, *call, child)
    )
    if found is ChildStart.GONE:
        return found, None
    if found is ChildStart.NEW:
        if sealed is None:  # it was deleted meanwhile
            return ChildStart.GONE, None
        verdict = await start(connection, sealed)
        if verdict.refusal is not None:
            return found, verdict.refusal
        if sealed.named is not None:
            await refer(connection, [(sealed.start.namespace, sealed.named, child)])
    if awaited:
        await connection.execute("select hold_call($1,$2,$3,$4)", *call, child)
    return found, None
