"""`POST /v1/runs/cancel`: the first runs at once, the rest by the scheduler.

Only runs that go on (or are quarantined: those are cancelled when they are released), that nobody has cancelled
yet and that were started before the request are concerned. Doing it twice is harmless.
"""

import asyncio
import logging
from dataclasses import dataclass

from app.background import repeat
from app.bulk.repository import BulkCancel, BulkRepository, unfinished
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import CancelRequested, EntryType
from sandbox.journal.errors import ApiError
from sandbox.journal.ids import RunId
from sandbox.store.interface import EventAppend, EventOutcome, Guard
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.lists import RunFilter
from tenancy.ids import new_id
from tenancy.principals import NamespaceRef, Principal

logger = logging.getLogger(__name__)

AT_ONCE = 200
"""Runs cancelled together."""
IN_REQUEST_MAX = 1_000
"""By the request itself; more are left to the scheduler."""
EVERY_S = 1.0
BULKS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Cancelled:
    """`remaining`: what is cancelled after the answer."""

    matched: int
    cancelled: int

    @property
    def remaining(self) -> int:
        return max(0, self.matched - self.cancelled)


class Bulk:
    def __init__(self, store: PostgresEdge) -> None:
        self._store = store
        self._repository = BulkRepository(store.pool)

    async def cancel(
        self,
        principal: Principal,
        namespace: NamespaceRef,
        matching: RunFilter,
        reason: str | None,
        *,
        ip: str,
    ) -> Cancelled:
        """Errors: Unavailable; what is noted by then is done nevertheless."""
        now = await self._store.now()
        before = RunId(new_id(now))
        matched = await self._store.count_cancellable(namespace.id, matching, before)
        if not matched:
            return Cancelled(0, 0)
        bulk = BulkCancel(
            namespace.id, new_id(now), principal.organization, matching, reason, principal.actor, before
        )
        await self._repository.note(namespace.id, bulk, matched, ip)
        cancelled = await self._go_on(bulk, IN_REQUEST_MAX)
        return Cancelled(max(matched, cancelled), cancelled)

    async def run(self, stop: asyncio.Event) -> None:
        """Finish what requests began, until `stop` is set. Any number of replicas."""

        async def work() -> bool:
            await self.finish_some()
            return False

        await repeat("bulk cancels", work, stop, every_s=EVERY_S)

    async def finish_some(self) -> int:
        """Go on with some of them; how many runs were cancelled."""
        cancelled = 0
        for bulk in await unfinished(self._store.pool, BULKS_AT_ONCE):
            try:
                cancelled += await self._go_on(bulk, IN_REQUEST_MAX)
            except ApiError as error:  # its namespace was erased
                logger.warning("bulk cancel %s is given up: %s", bulk.id, error)
                await self._repository.go_on(bulk.namespace, bulk.id, None)
        return cancelled

    async def _go_on(self, bulk: BulkCancel, limit: int) -> int:
        """Cancel up to `limit` runs, newest first, and note where to go on; how many were cancelled by it."""
        before, cancelled, looked_at = bulk.before, 0, 0
        while looked_at < limit:
            runs = await self._store.cancellable(bulk.namespace, bulk.matching, before, AT_ONCE)
            if runs:
                appended = await asyncio.gather(*(self._cancel(bulk, run) for run in runs))
                cancelled += sum(appended)
                looked_at += len(runs)
                before = runs[-1]
            done = len(runs) < AT_ONCE
            await self._repository.go_on(bulk.namespace, bulk.id, None if done else before)
            if done:
                break
        return cancelled

    async def _cancel(self, bulk: BulkCancel, run: RunId) -> bool:
        by = f"{bulk.actor.kind}:{bulk.actor.id}"
        verdict = await self._store.append_event(
            EventAppend(
                namespace=bulk.namespace,
                run=run,
                type=EntryType.CANCEL_REQUESTED,
                body=encode_body(CancelRequested(reason="user", by=by, detail=bulk.reason)),
                guard=Guard.CANCEL,
            )
        )
        return verdict.outcome is EventOutcome.APPENDED
