"""The scheduler's loop: looks when the next thing is due, at the latest after a poll interval."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from app.background import pause
from app.scheduler.due import due_event, expired_approval, lost_lease_event
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, RunId, TimeMs
from sandbox.store.approvals import Decision
from sandbox.store.interface import DueRow, DueWhy, EventAppend, EventVerdict, PendingKind

logger = logging.getLogger(__name__)

POLL_S = 0.5
"""A timer made meanwhile by another process waits at most so long beyond its time."""
BATCH = 1_000


class DueStore(Protocol):
    async def read_due(self, limit: int) -> list[DueRow]: ...
    async def next_due(self) -> tuple[TimeMs, TimeMs | None]: ...
    async def begin_runs(self, runs: Sequence[tuple[NamespaceId, RunId]]) -> int: ...
    async def expire_leases(self, limit: int) -> list[DueRow]: ...
    async def append_event(self, event: EventAppend) -> EventVerdict: ...
    async def decide_approval(self, decision: Decision) -> EventVerdict: ...


async def run_scheduler(store: DueStore, stop: asyncio.Event) -> None:
    """Fire what is due until `stop` is set; what a lost database left undone is done afterwards."""
    while not stop.is_set():
        wait_s = POLL_S
        try:
            if await fire_due(store):
                continue
            now, due = await store.next_due()
            if due is not None:
                wait_s = min(POLL_S, max(0.0, (due - now) / 1000))
        except Unavailable as error:
            logger.warning("the scheduler waits: %s", error)
        except Exception:
            logger.exception("the scheduler failed; it goes on")
        await pause(stop, wait_s)


async def fire_due(store: DueStore) -> bool:
    """Settle what is due now. True: there may be more, look again at once.

    Timers of one run fire in (fire_at, timer) order: one after the other, and none after one that failed.
    """
    late = await store.expire_leases(BATCH)
    due = await store.read_due(BATCH)
    held = [(row.namespace, row.run) for row in due if row.kind is PendingKind.START]
    if held:
        await store.begin_runs(held)
    by_run: dict[RunId, list[EventAppend | Decision]] = defaultdict(list)
    for row in late:
        by_run[row.run].append(lost_lease_event(row))
    for row in due:
        if row.kind is PendingKind.CALL and row.why is DueWhy.APPROVAL:
            by_run[row.run].append(expired_approval(row))
        elif row.kind is not PendingKind.START:
            by_run[row.run].append(due_event(row))
    if by_run:
        await asyncio.gather(*(_append_in_order(store, events) for events in by_run.values()))
    return len(due) == BATCH or len(late) == BATCH


async def _append_in_order(store: DueStore, events: Sequence[EventAppend | Decision]) -> None:
    for event in events:
        if isinstance(event, Decision):
            await store.decide_approval(event)
        else:
            await store.append_event(event)
