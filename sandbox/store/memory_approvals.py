"""The double's approvals: the decision of a gated call, once."""

from dataclasses import replace

from sandbox.journal import decide
from sandbox.journal.entries import EntryType
from sandbox.store.approvals import Decision
from sandbox.store.interface import DueWhy, EventOutcome, EventVerdict, PendingKind
from sandbox.store.memory_pace import paced
from sandbox.store.memory_runs import Journals, MemoryRow


class MemoryApprovals:
    journals: Journals

    async def decide_approval(self, decision: Decision) -> EventVerdict:
        """Append a decision if nobody was faster."""
        run = self.journals.runs.get((decision.namespace, decision.run))
        if run is None:
            return EventVerdict(EventOutcome.UNKNOWN)
        decided = decision.decided
        row = run.pending.get((PendingKind.CALL, decided.call))
        judged = decide.decide_approval(
            run.summary,
            waiting=row is not None and self._waits(row, decision),
            approved=decided.decision == "approved",
        )
        if isinstance(judged, decide.Refusal):
            return EventVerdict(EventOutcome(judged.code))
        assert row is not None  # it waits
        time = decide.event_time(run.last_time, self.journals.time, self.journals.time)
        owner = run.owner
        seq = run.add_event(EntryType.APPROVAL_DECIDED, time, decision.body, delivered=False)
        if decision.completion is None:
            run.pending[row.kind, row.n] = paced(
                replace(row, gated=False, due=None, why=None), self.journals.time
            )
        else:
            del run.pending[row.kind, row.n]
            run.offer_next_call()
            run.add_event(EntryType.TOOL_CALL_COMPLETED, time, decision.completion)
        return EventVerdict(EventOutcome.APPENDED, seq, time, owner)

    def _waits(self, row: MemoryRow, decision: Decision) -> bool:
        if not row.gated:
            return False
        if decision.decided.decision == "approved":
            return not row.stopping
        due = row.why is DueWhy.APPROVAL and row.due is not None and row.due <= self.journals.time
        return due or decision.decided.decision == "denied"
