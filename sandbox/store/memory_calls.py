"""The double's leases: claims of host tools' calls and of the dispatcher's, and what the scheduler finds due.

The same rules as `claim_tasks`, `claim_calls` and their kin have in SQL; one conformance suite holds both.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.interface import DueRow, DueWhy, PendingKind, Route, Task, TaskFilter
from sandbox.store.memory_pace import may_begin, paced
from sandbox.store.memory_runs import Journals, MemoryRow, MemoryRun
from sandbox.store.postgres.calls import CallKey, ClaimedCall, ServerKey
from sandbox.store.postgres.tasks import TaskKey

STOP_MS = 30_000
"""A begun call that was told to stop has so long for its outcome."""
CLEAN_UP_MS = 30_000
"""A clean-up call has so long to begin,"""
CLEAN_UP_BEGUN_MS = 300_000
"""and so long to end once it has."""


class MemoryCalls:
    journals: Journals

    # -- Host tools

    async def claim_tasks(self, wanted: TaskFilter, claim_id: str, limit: int, lease_ms: int) -> list[Task]:
        """Lease calls to `claim_id` until it holds `limit`; what it holds already comes again, first."""
        now = self.journals.time
        until = TimeMs(now + lease_ms)
        mine = [
            (run, row)
            for run, row in self._rows()
            if row.claim_id == claim_id and row.route is Route.HOST and _wanted(run, wanted)
        ]
        for run, row in mine:
            run.pending[row.kind, row.n] = replace(row, lease_until=until)
        room = limit - len(mine)
        free = [
            (run, row)
            for run, row in self._rows()
            if row.offered
            and row.route is Route.HOST
            and not row.stopping
            and (row.available_at is None or row.available_at <= now)
            and _wanted(run, wanted)
            and (wanted.tools is None or row.name in wanted.tools)
        ]
        taken: list[tuple[MemoryRun, MemoryRow]] = []
        for run, row in _round_robin(self.journals, free, room):
            if len(taken) < room and may_begin(self.journals, run, row):
                taken.append((run, row))
                run.pending[row.kind, row.n] = _leased(row, claim_id, now, until)
        given = [*sorted(mine, key=_place), *sorted(taken, key=_place)]
        return [self._task(run, run.pending[row.kind, row.n]) for run, row in given]

    async def give_back_tasks(self, leases: Sequence[tuple[TaskKey, TimeMs]]) -> None:
        """Release leases that end then; one that ends later by now was handed out elsewhere, and stays."""
        for key, end in leases:
            run, row = self._lease(key)
            if run is not None and row is not None and row.claim_id is not None and row.lease_until == end:
                run.pending[row.kind, row.n] = _released(row, None, self.journals.time)

    async def heartbeat_tasks(
        self, tasks: Sequence[TaskKey], lease_ms: int
    ) -> list[tuple[TimeMs | None, bool]]:
        """For each task its new lease and whether it is told to stop; None: settled or superseded.

        A cancel tells it at once: what is pending before its delivery was called before it.
        """
        until = TimeMs(self.journals.time + lease_ms)
        answers: list[tuple[TimeMs | None, bool]] = []
        for key in tasks:
            run, row = self._lease(key)
            if run is None or row is None or row.claim_id is None:
                answers.append((None, False))
            else:
                run.pending[row.kind, row.n] = replace(row, lease_until=until)
                asked = run.cancel_seq is not None and run.delivered < run.cancel_seq
                answers.append((until, row.stopping or asked))
        return answers

    async def defer_tasks(self, tasks: Sequence[TaskKey], expires_ms: Sequence[int | None]) -> list[bool]:
        done = []
        for key, expires in zip(tasks, expires_ms, strict=True):
            run, row = self._lease(key)
            held = row is not None and (row.claim_id is not None or row.deferred)
            if run is not None and row is not None and held:
                run.pending[row.kind, row.n] = _deferred(row, expires, self.journals.time)
            done.append(held)
        return done

    async def release_tasks(self, tasks: Sequence[TaskKey], after_ms: Sequence[int | None]) -> list[bool]:
        """Give tasks back that were not started; `after_ms`: not offered again before that."""
        done = []
        for key, after in zip(tasks, after_ms, strict=True):
            run, row = self._lease(key)
            held = row is not None and row.claim_id is not None
            if run is not None and row is not None and held:
                run.pending[row.kind, row.n] = _released(row, after, self.journals.time)
            done.append(held)
        return done

    # -- The dispatcher's calls

    async def claim_calls(
        self,
        claim_id: str,
        limit: int,
        *,
        lease_ms: int,
        server_max: int,
        free: Mapping[ServerKey, int],
        full: Iterable[OrganizationId] = (),
    ) -> list[ClaimedCall]:
        """Begin up to `limit` calls. `free`: room of the servers that have less than `server_max`."""
        now = self.journals.time
        closed, used = set(full), Counter[ServerKey]()
        calls: list[ClaimedCall] = []
        room = min(limit, server_max, *free.values())
        for run, row in _round_robin(self.journals, list(self._rows()), room):
            start = run.start
            server = (start.organization, start.toolset or "", (row.name or "").partition(".")[0])
            fits = used[server] < free.get(server, server_max) and start.organization not in closed
            available = row.available_at is None or row.available_at <= now
            open_ = row.offered and row.route is Route.DISPATCHER and not row.stopping and available
            if not open_ or not fits or len(calls) >= limit or not may_begin(self.journals, run, row):
                continue
            used[server] += 1
            begun = run.pending[row.kind, row.n] = _leased(row, claim_id, now, TimeMs(now + lease_ms))
            calls.append(_call(run, begun, now))
        return calls

    async def renew_calls(self, claim_id: str, lease_ms: int) -> dict[CallKey, int]:
        """Lengthen every lease of the claim; the attempt of each call that it holds."""
        held = {}
        for run, row in self._rows():
            if row.claim_id == claim_id and row.route is Route.DISPATCHER:
                until = TimeMs(self.journals.time + lease_ms)
                run.pending[row.kind, row.n] = replace(row, lease_until=until)
                held[run.start.namespace, run.start.run, row.n] = row.attempt
        return held

    async def stopping_calls(self, claim_id: str) -> list[CallKey]:
        return [
            (run.start.namespace, run.start.run, row.n)
            for run, row in self._rows()
            if row.claim_id == claim_id and row.stopping
        ]

    async def retry_call(self, claim_id: str, call: ClaimedCall, after_ms: int) -> bool:
        """End a failed attempt and offer the call again; False: it has its outcome, or is told to stop."""
        run = self.journals.runs.get((call.namespace, call.run))
        row = None if run is None else run.pending.get((PendingKind.CALL, call.call))
        if run is None or row is None or row.stopping:
            return False
        if (row.claim_id, row.attempt) != (claim_id, call.attempt):
            return False
        available = TimeMs(self.journals.time + after_ms)
        run.pending[row.kind, row.n] = replace(row, claim_id=None, lease_until=None, available_at=available)
        return True

    async def release_calls(self, claim_id: str, calls: Sequence[CallKey]) -> None:
        """Give calls back that were certainly not sent."""
        for namespace, run_id, number in calls:
            run = self.journals.runs.get((namespace, run_id))
            row = None if run is None else run.pending.get((PendingKind.CALL, number))
            if run is not None and row is not None and row.claim_id == claim_id:
                run.pending[row.kind, row.n] = _released(row, None, self.journals.time)

    # -- What is due

    async def read_due(self, limit: int) -> list[DueRow]:
        """Due things, the namespaces in turn; those of one namespace in (due, number) order."""
        found = [
            (row.due, row.kind, row.n, run)
            for run in self.journals.runs.values()
            for row in run.pending.values()
            if row.due is not None and row.due <= self.journals.time
        ]
        found.sort(key=lambda item: (item[:3], item[3].start.run))
        seen: Counter[NamespaceId] = Counter()
        ranked = []
        for _, kind, n, run in found:
            ranked.append((seen[run.start.namespace], run, run.pending[kind, n]))
            seen[run.start.namespace] += 1
        ranked.sort(key=lambda item: item[0])
        return [_due(run, row) for _, run, row in ranked[:limit]]

    async def next_due(self) -> tuple[TimeMs, TimeMs | None]:
        """(now, when something is due next)."""
        times = [
            at
            for run in self.journals.runs.values()
            for row in run.pending.values()
            for at in (row.due, row.lease_until)
            if at is not None
        ]
        return self.journals.time, min(times, default=None)

    async def expire_leases(self, limit: int) -> list[DueRow]:
        """Offer late idempotent calls again; the late calls that may not be repeated are returned."""
        late = [
            (run, row)
            for run, row in self._rows()
            if row.lease_until is not None and row.lease_until <= self.journals.time
        ]
        late.sort(key=lambda pair: (pair[1].lease_until or 0, pair[0].start.run, pair[1].n))
        lost = []
        for run, row in late[:limit]:
            if row.idempotent and not row.stopping:
                run.pending[row.kind, row.n] = replace(row, claim_id=None, lease_until=None)
            else:
                lost.append(replace(_due(run, row), due=TimeMs(0), why=None, timeout_ms=None))
        return lost

    # --

    def _rows(self) -> Iterator[tuple[MemoryRun, MemoryRow]]:
        """Every pending call, in order."""
        for _, run in sorted(self.journals.runs.items()):
            for row in run.calls_pending():
                yield run, row

    def _lease(self, key: TaskKey) -> tuple[MemoryRun | None, MemoryRow | None]:
        namespace, run_id, number, attempt, releases = key
        run = self.journals.runs.get((namespace, run_id))
        row = None if run is None else run.pending.get((PendingKind.CALL, number))
        if row is None or (row.attempt, row.releases) != (attempt, releases):
            return run, None
        return run, row

    def _task(self, run: MemoryRun, row: MemoryRow) -> Task:
        assert row.begun_at is not None
        assert row.lease_until is not None
        return Task(
            namespace=run.start.namespace,
            run=run.start.run,
            call=row.n,
            tool=row.name or "",
            attempt=row.attempt,
            begun_at=row.begun_at,
            lease_until=row.lease_until,
            stopping=row.stopping,
            body=run.entries[row.seq].body,
            namespace_name=self.journals.namespace_names.get(run.start.namespace, run.start.namespace),
            labels=run.start.labels,
            releases=row.releases,
        )


def _wanted(run: MemoryRun, wanted: TaskFilter) -> bool:
    start = run.start
    return (
        start.organization == wanted.organization
        and wanted.namespace in {None, start.namespace}
        and wanted.toolset in {None, start.toolset}
    )


def _round_robin(
    journals: Journals, pairs: list[tuple[MemoryRun, MemoryRow]], room: int
) -> list[tuple[MemoryRun, MemoryRow]]:
    """One of each namespace in turn."""
    first = journals.next_turn((run.start.namespace for run, _ in pairs), room)
    turns: Counter[NamespaceId] = Counter()
    ranked = []
    for run, row in pairs:
        namespace = run.start.namespace
        turns[namespace] += 1
        ranked.append(((turns[namespace], first[namespace]), run, row))
    return [(run, row) for _, run, row in sorted(ranked, key=lambda item: item[0])]


def _place(pair: tuple[MemoryRun, MemoryRow]) -> tuple[RunId, int]:
    return pair[0].start.run, pair[1].n


def _leased(row: MemoryRow, claim_id: str, now: TimeMs, until: TimeMs) -> MemoryRow:
    due, why = row.due, row.why
    if why is DueWhy.CLEANUP:
        due = TimeMs(now + CLEAN_UP_BEGUN_MS)
    elif due is None and row.timeout_ms is not None:
        due = TimeMs(now + row.timeout_ms)
    if why is None and row.timeout_ms is not None:
        why = DueWhy.TIMEOUT
    begun_at = now if row.begun_at is None else row.begun_at
    attempt = row.attempt + 1
    begun = replace(
        row, claim_id=claim_id, lease_until=until, attempt=attempt, begun_at=begun_at, due=due, why=why
    )
    return paced(begun, now)


def _released(row: MemoryRow, after_ms: int | None, now: TimeMs) -> MemoryRow:
    """Not started: the attempt is given back, and with the first one the time of the call."""
    available = None if after_ms is None else TimeMs(now + after_ms)
    changed = replace(
        row,
        claim_id=None,
        lease_until=None,
        attempt=row.attempt - 1,
        releases=row.releases + 1,
        available_at=available,
    )
    if row.attempt > 1:
        return changed
    due, why = row.due, row.why
    if why is DueWhy.TIMEOUT:
        due = why = None
    elif why is DueWhy.STOP:
        due = now
    elif why is DueWhy.CLEANUP:
        due = TimeMs(now + CLEAN_UP_MS)
    return paced(replace(changed, begun_at=None, due=due, why=why), now)


def _deferred(row: MemoryRow, expires_ms: int | None, now: TimeMs) -> MemoryRow:
    row = replace(row, deferred=True, claim_id=None, lease_until=None)
    if expires_ms is None or row.why in {DueWhy.STOP, DueWhy.CLEANUP}:
        return row
    return replace(row, due=TimeMs(now + expires_ms), why=DueWhy.DEFERRAL)


def _due(run: MemoryRun, row: MemoryRow) -> DueRow:
    return DueRow(
        namespace=run.start.namespace,
        run=run.start.run,
        kind=row.kind,
        n=row.n,
        due=row.due or TimeMs(0),
        why=row.why,
        attempt=row.attempt,
        begun_at=row.begun_at,
        timeout_ms=row.timeout_ms,
        name=row.name,
    )


def _call(run: MemoryRun, row: MemoryRow, now: TimeMs) -> ClaimedCall:
    start = run.start
    return ClaimedCall(
        namespace=start.namespace,
        run=RunId(start.run),
        call=row.n,
        tool=row.name or "",
        attempt=row.attempt,
        begun_at=row.begun_at or now,
        left_ms=None if row.due is None else row.due - now,
        body=run.entries[row.seq].body,
        organization=start.organization,
        toolset=start.toolset or "",
        toolset_digest=start.toolset_digest or Digest(""),
        paced=row.pace is not None,
    )
