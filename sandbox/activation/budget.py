"""What a run may use in all: CPU over all its events, entries of its journal. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.isolate.api import LimitExceeded
from sandbox.journal.entries import EntryType, Limits
from sandbox.store.interface import CommandDraft, StoredEntry

ENDS = frozenset({EntryType.COMPLETE_RUN, EntryType.FAIL_RUN, EntryType.CANCEL_RUN})


@dataclass(slots=True)
class Budget:
    """Errors of the checks: LimitExceeded."""

    limits: Limits
    cpu_us: int
    """Used so far, by whichever worker."""

    def check_cpu(self, event: StoredEntry) -> None:
        """Before an event is delivered: what was begun within the limit is finished."""
        allowed, used = self.limits.cpu_ms_total, self.cpu_us // 1_000
        if used > allowed:
            raise LimitExceeded("cpu_total", allowed, used, event.seq)

    def check_history(self, length: int, drafts: Sequence[CommandDraft], event: StoredEntry) -> None:
        """Before commands are appended to a journal of this length; outcomes and the end may exceed the limit."""
        allowed = self.limits.history_entries
        added = sum(draft.type not in ENDS for draft in drafts)
        if added and length + added > allowed:
            raise LimitExceeded("history", allowed, length + added, event.seq)
