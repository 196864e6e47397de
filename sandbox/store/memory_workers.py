"""The double's workers: who is registered, who is dead or superseded, and what becomes of their runs."""

from collections.abc import Sequence

from sandbox.journal.ids import Epoch, NamespaceId, RunId, TimeMs, WorkerId
from sandbox.store.memory_runs import Journals

STALE_MS = 10_000
"""A worker not heard of for so long is superseded, though its lock may be held (a paused process)."""


class MemoryWorkers:
    journals: Journals
    worker: WorkerId

    async def register(self, epochs: Sequence[Epoch]) -> WorkerId:
        """Take a fresh id and its lock; the lock of the former id is let go."""
        self.journals.locks.discard(self.worker)
        self.worker = WorkerId(len(self.journals.workers) + 1)
        self.journals.workers[self.worker] = epochs
        self.journals.heard_of[self.worker] = self.journals.time
        self.journals.locks.add(self.worker)
        return self.worker

    async def heartbeat(self) -> bool:
        """False: this worker was superseded; everything it owns may be another's."""
        if self.worker not in self.journals.heard_of:
            return False
        self.journals.heard_of[self.worker] = self.journals.time
        return True

    async def reap_workers(self) -> int:
        """Free the runs of dead and superseded workers; how many workers that were."""
        oldest = TimeMs(self.journals.time - STALE_MS)
        gone = [
            worker
            for worker, heard_at in self.journals.heard_of.items()
            if heard_at < oldest or worker not in self.journals.locks
        ]
        for worker in gone:
            del self.journals.heard_of[worker]
        for run in self.journals.runs.values():
            if run.owner in gone:
                run.owner = None
        return len(gone)

    async def deregister(self) -> None:
        """Leave; what this worker still owns is free for others."""
        self.journals.locks.discard(self.worker)
        await self.reap_workers()

    async def overdue_runs(self, worker: WorkerId, limit: int) -> list[tuple[NamespaceId, RunId]]:
        """Owned runs with events that were not delivered: what a lost hint leaves behind."""
        return [
            (run.start.namespace, run.start.run)
            for run in self.journals.runs.values()
            if run.owner == worker and run.last_event > run.delivered
        ][:limit]
