"""The double's child runs: one per call of a workflow, its end and the loss of its parent as rows of an outbox.

The same rules as `claim_child`, `hold_call` and `end_run` have in SQL; one conformance suite holds both.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.interface import PendingKind, RunStatus, StartRun, StartVerdict
from sandbox.store.memory_runs import Journals, MemoryRow, MemoryRun
from sandbox.store.postgres.calls import CallKey
from sandbox.store.postgres.children import CallPlace, ChildNews, ChildStart, Waiter, depth_of


class MemoryChildren(ABC):
    journals: Journals

    @abstractmethod
    async def start_run(self, request: StartRun) -> StartVerdict:
        """Append run_started."""

    async def call_place(self, call: CallKey, claim_id: str) -> CallPlace | None:
        """None: the call is not this claim's any more."""
        found = self._claimed(call, claim_id)
        if found is None:
            return None
        run, row = found
        deadline = TimeMs(run.start.time + run.start.ttl_ms)
        return CallPlace(row.since, row.stopping, deadline, depth_of(run.start.parent), self.journals.time)

    async def started_child(self, call: CallKey) -> RunId | None:
        """The run that this call of a workflow has started."""
        namespace, run, number = call
        wanted = ("workflow", run, number)
        for (home, child), found in self.journals.runs.items():
            parent = found.start.parent or {}
            if home == namespace and (parent.get("kind"), parent.get("run"), parent.get("call")) == wanted:
                return child
        return None

    async def start_child(
        self, call: CallKey, claim_id: str, child: RunId, request: StartRun | None, *, awaited: bool
    ) -> ChildStart:
        """Start the child of a call, unless it was started before; `awaited`: it then has the call."""
        found = self._claimed(call, claim_id)
        if found is None:
            return ChildStart.GONE
        known = self.journals.runs.get((call[0], child))
        if known is None:
            if request is None:
                return ChildStart.GONE
            await self.start_run(request)
        if awaited:
            run, row = found
            run.pending[row.kind, row.n] = replace(row, claim_id=child, lease_until=None)
            if known is not None and known.ended_at is not None:
                self.journals.tell_of(call[0], child, known.ended_at, again=True)
        return ChildStart.NEW if known is None else ChildStart.KNOWN

    async def read_child_news(self, limit: int) -> list[ChildNews]:
        """What nobody has handled yet, the oldest first."""
        outbox = sorted(self.journals.child_outbox.items(), key=lambda item: item[1])
        news = []
        for (namespace, run, orphaned), (_, ident) in outbox[:limit]:
            found = self.journals.runs[namespace, run]
            news.append(
                ChildNews(
                    namespace=namespace,
                    run=run,
                    orphaned=orphaned,
                    status=found.status,
                    end_seq=None if found.ended_at is None else Seq(found.next_seq - 1),
                    workflow=found.start.workflow or "",
                    parent=RunId(str((found.start.parent or {})["run"])),
                    ident=str(ident),
                )
            )
        return news

    async def forget_child_news(self, handled: Sequence[ChildNews]) -> None:
        """These, and not what came after them: a call that a child got meanwhile was not among those told."""
        outbox = self.journals.child_outbox
        for news in handled:
            _, ident = outbox.get((news.namespace, news.run, news.orphaned), (0, 0))
            if str(ident) == news.ident:
                del outbox[news.namespace, news.run, news.orphaned]

    async def calls_held_by(self, namespace: NamespaceId, child: RunId) -> list[Waiter]:
        return [
            Waiter(run.start.run, row.n, row.attempt, row.begun_at)
            for run, row in self._held()
            if run.start.namespace == namespace and row.claim_id == child
        ]

    async def children_to_stop(self, limit: int) -> list[tuple[NamespaceId, RunId, RunId]]:
        """(namespace, parent, child) of calls that are told to stop and wait for a child which is not cancelled yet."""
        held = [
            (run.start.namespace, run.start.run, RunId(row.claim_id or ""))
            for run, row in self._held()
            if row.stopping
        ]
        return [one for one in held if self._goes_on(one[0], one[2])][:limit]

    def _goes_on(self, namespace: NamespaceId, child: RunId) -> bool:
        run = self.journals.runs.get((namespace, child))
        return run is not None and run.ended_at is None and not run.cancelling

    def _held(self) -> list[tuple[MemoryRun, MemoryRow]]:
        """Calls that a child has: claimed, without a lease."""
        return [
            (run, row)
            for _, run in sorted(self.journals.runs.items())
            for row in run.calls_pending()
            if row.claim_id is not None and row.lease_until is None
        ]

    def _claimed(self, call: CallKey, claim_id: str) -> tuple[MemoryRun, MemoryRow] | None:
        namespace, run_id, number = call
        run = self.journals.runs.get((namespace, run_id))
        row = None if run is None else run.pending.get((PendingKind.CALL, number))
        return None if run is None or row is None or row.claim_id != claim_id else (run, row)


def give_up_child(journals: Journals, run: MemoryRun, row: MemoryRow) -> None:
    """A call is settled: the child that it waited for is to be cancelled, unless it has ended."""
    if row.claim_id is not None and row.lease_until is None:
        child = journals.runs.get((run.start.namespace, RunId(row.claim_id)))
        if child is not None and child.ended_at is None:
            journals.tell_of(run.start.namespace, RunId(row.claim_id), journals.time, orphaned=True)


def tell_children(journals: Journals, run: MemoryRun, at: TimeMs) -> None:
    """A run has ended: whoever awaits it is to hear of it, and the children that it awaited are to be cancelled."""
    start = run.start
    if (start.parent or {}).get("kind") == "workflow":
        journals.tell_of(start.namespace, start.run, at)
    if run.status is RunStatus.COMPLETED:
        return
    for (namespace, child), found in journals.runs.items():
        parent = found.start.parent or {}
        awaited = parent.get("run") == start.run and parent.get("awaited")
        if namespace == start.namespace and awaited and found.ended_at is None:
            journals.tell_of(namespace, child, at, orphaned=True)
