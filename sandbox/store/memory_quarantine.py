"""The double's quarantine: how runs come there, and how operators get them out.

The same rules as `quarantine_run`, `quarantine_by_operator`, `release_quarantined` and `abandon_quarantined` have in SQL.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

from sandbox.journal.ids import Json, NamespaceId, RunId, Seq, TimeMs, WorkerId
from sandbox.store.interface import DueWhy, EventAppend, EventVerdict, PendingKind, RunStatus
from sandbox.store.memory_calls import STOP_MS
from sandbox.store.memory_forks import leave_fork
from sandbox.store.memory_runs import Journals, MemoryRun, row_of

ABANDON_AGAIN_MS = 500


class MemoryQuarantine(ABC):
    journals: Journals
    worker: WorkerId

    @abstractmethod
    def append(self, run: MemoryRun, event: EventAppend) -> EventVerdict:
        """Append one event if its guard holds."""

    async def quarantine(
        self, namespace: NamespaceId, run: RunId, report: dict[str, Json], owner_epoch: int | None = None
    ) -> None:
        """By its owner: a replay differs, or a child died twice. Not by one whose claim was superseded meanwhile."""
        found = self.journals.runs[namespace, run]
        owned = found.owner == self.worker and owner_epoch in {None, found.owner_epoch}
        if found.status is RunStatus.ACTIVE and owned:
            self._put_there(found, report)

    async def quarantine_by_operator(
        self, namespace: NamespaceId, run: RunId, report: dict[str, Json]
    ) -> bool:
        """Whoever owns it; the owner's next append is refused. False: it is not active."""
        found = self.journals.runs[namespace, run]
        if found.status is not RunStatus.ACTIVE:
            return False
        self._put_there(found, report)
        return True

    def _put_there(self, run: MemoryRun, report: dict[str, Json]) -> None:
        run.status, run.owner = RunStatus.QUARANTINED, None
        _set_deadline(run, None)
        self.journals.quarantined[run.start.run] = report

    async def release_quarantined(self, namespace: NamespaceId, run: RunId) -> bool:
        """The run is active, its deadline counts again. False: it is not quarantined, or is being abandoned."""
        found = self.journals.runs[namespace, run]
        if found.status is not RunStatus.QUARANTINED or (PendingKind.ABANDON, 0) in found.pending:
            return False
        found.status = RunStatus.ACTIVE
        _set_deadline(found, TimeMs(found.start.time + found.start.ttl_ms))
        return True

    async def abandon_quarantined(self, namespace: NamespaceId, run: RunId) -> bool:
        """Calls that have not begun are due now, begun ones have 30 s; then the scheduler ends the run."""
        found, now = self.journals.runs[namespace, run], self.journals.time
        if found.status is not RunStatus.QUARANTINED:
            return False
        if found.forking:
            for event in leave_fork(found, now):
                self.append(found, event)
        for row in found.calls_pending():
            if not row.stopping:
                at_once = row.attempt == 0 or row.deferred
                found.pending[row.kind, row.n] = replace(
                    row,
                    stopping=True,
                    why=DueWhy.WITHDRAWN if row.deferred else DueWhy.STOP,
                    due=now if at_once else TimeMs(now + STOP_MS),
                )
        found.pending.setdefault(
            (PendingKind.ABANDON, 0), row_of(PendingKind.ABANDON, 0, Seq(0), now, due=now)
        )
        return True


def look_again(run: MemoryRun, now: TimeMs) -> None:
    """Its calls are not settled yet: the end of an abandoned run is tried again a little later."""
    row = run.pending.get((PendingKind.ABANDON, 0))
    if row is not None:
        run.pending[row.kind, 0] = replace(row, due=TimeMs(now + ABANDON_AGAIN_MS))


def _set_deadline(run: MemoryRun, due: TimeMs | None) -> None:
    row = run.pending.get((PendingKind.DEADLINE, 0))
    if row is not None:
        run.pending[row.kind, 0] = replace(row, due=due)
