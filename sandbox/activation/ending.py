"""Runs whose script is over but whose calls are not: an exceeded limit, or a clean-up cut short.

Nothing is executed here. Calls that have not begun are withdrawn, begun ones are told to stop and awaited
(the scheduler gives up on them after 30 s), then the run ends.
"""

import asyncio
from collections.abc import Sequence

from sandbox.activation.drafts import Emission, withdrawn_body
from sandbox.activation.ports import OwnedRuns
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import CancelRequested, CancelRun, EntryType, RunAborted
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.interface import CommandDraft, EventAppend, EventOutcome, Guard, StoredEntry


async def withdraw(
    store: OwnedRuns, namespace: NamespaceId, run: RunId, *, below: int | None, deferred: bool
) -> list[StoredEntry]:
    """Complete every call that has not begun with CancelledError; the completions that were recorded.

    A call that a worker claims at the same moment is left alone: its guard no longer holds.
    """
    calls = await store.unbegun_calls(namespace, run, below=below, deferred=deferred)
    events = [
        EventAppend(
            namespace,
            run,
            EntryType.TOOL_CALL_COMPLETED,
            withdrawn_body(call, attempt),
            Guard.CALL,
            n=call,
            attempt=attempt,
        )
        for call, attempt in calls
    ]
    verdicts = await asyncio.gather(*(store.append_event(event) for event in events))
    return [
        StoredEntry(verdict.seq, event.type, verdict.time, None, None, event.body)
        for event, verdict in zip(events, verdicts, strict=True)
        if verdict.seq is not None and verdict.time is not None and verdict.outcome is EventOutcome.APPENDED
    ]


class Settlement:
    """The end of a run that executes nothing any more, resumable from its journal."""

    def __init__(self, store: OwnedRuns, namespace: NamespaceId, run: RunId, cancel: StoredEntry) -> None:
        self._store = store
        self._namespace = namespace
        self._run = run
        self._cancel = cancel
        self._request = _decoded(cancel)
        self.begun = False
        self.ended = False

    @classmethod
    async def load(
        cls,
        store: OwnedRuns,
        namespace: NamespaceId,
        run: RunId,
        entries: Sequence[StoredEntry] | None = None,
    ) -> "Settlement | None":
        """With `entries`, the whole journal: None unless the script has nothing to do any more, since a limit ended the
        run or it was cancelled before its start. Without: after a drain was cut short.
        """
        if entries is None:
            cancel = await store.find_entry(namespace, run, EntryType.CANCEL_REQUESTED)
            return None if cancel is None else cls(store, namespace, run, cancel)
        for entry in entries:
            if entry.type == EntryType.CANCEL_REQUESTED and (
                _decoded(entry).reason == "limit" or before_the_start(entries, entry)
            ):
                return cls(store, namespace, run, entry)
        return None

    async def proceed(self) -> Emission | None:
        """Take the run one step nearer to its end; a cancel_run to append when it ends as cancelled."""
        self.begun = True
        await withdraw(self._store, self._namespace, self._run, below=None, deferred=True)
        await self._store.stop_calls(self._namespace, self._run, below=None)
        if await self._store.count_calls(self._namespace, self._run):
            return None
        if self._request.reason != "limit":
            self.ended = True
            body = encode_body(CancelRun(self._request.reason))
            return Emission(CommandDraft(EntryType.CANCEL_RUN, self._cancel.seq, self._cancel.time, body))
        body = encode_body(
            RunAborted(self._request.limit or "unknown", self._request.allowed, self._request.used)
        )
        verdict = await self._store.append_event(
            EventAppend(self._namespace, self._run, EntryType.RUN_ABORTED, body, Guard.ABORT)
        )
        self.ended = verdict.outcome in {EventOutcome.APPENDED, EventOutcome.ENDED}
        return None


def before_the_start(entries: Sequence[StoredEntry], cancel: StoredEntry) -> bool:
    """Whether nothing has happened by the time of `run_started` but this cancel: the script is then not run at all.

    A function of the journal alone, as replay needs it: the events of a run that waits for its start have the
    time of that start.
    """
    return cancel.time == entries[0].time and all(entry.cause is None for entry in entries)


def _decoded(entry: StoredEntry) -> CancelRequested:
    body, _ = decode_body(entry.type, entry.body)
    if not isinstance(body, CancelRequested):
        raise TypeError("not a cancel_requested")
    return body
