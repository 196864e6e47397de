"""The runs that this worker owns: one driver task per run at a time, warm isolates, eviction, quarantine."""

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

from sandbox.activation.live_run import Committed, LiveRun, LostRunError, NotSurvivedAgainError
from sandbox.activation.parked import ParkedClaims
from sandbox.activation.ports import Blobs, Isolates, OwnedRuns
from sandbox.isolate.api import ChildDied, IsolateLost
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import Divergence, PlatformFault, Unavailable
from sandbox.journal.ids import Json, NamespaceId, RunId, Seq, WorkerId
from sandbox.store.hints import Message
from sandbox.store.interface import ClaimedRun, CommandAppend, Route, StoredEntry
from sandbox.store.leases import leased_message
from sandbox.worker.watched import WatchedRuns

logger = logging.getLogger(__name__)

IDLE_S = 30.0
"""A run without events for so long gives its isolate back."""
REPORT_S = 0.5


class Hints(Protocol):
    def send(self, role: str, message: Message) -> None: ...
    def send_to(self, address: str, message: Message) -> None: ...


class RunsStore(OwnedRuns, Protocol):
    """The store as the owner of many runs uses it."""

    on_batch: Callable[[Sequence[CommandAppend]], None] | None

    async def release_runs(self, worker: WorkerId, runs: Sequence[tuple[NamespaceId, RunId]]) -> int: ...
    async def quarantine(
        self, namespace: NamespaceId, run: RunId, report: dict[str, Json], owner_epoch: int | None = None
    ) -> None: ...


class WarmRuns:
    """`warm_max` 0: every isolate is given back after each activation (tests, tiny machines)."""

    def __init__(
        self,
        store: RunsStore,
        blobs: Blobs,
        isolates: Isolates,
        hints: Hints,
        *,
        warm_max: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._store = store
        self._blobs = blobs
        self._isolates = isolates
        self._hints = hints
        self._warm_max = warm_max
        self.parked = ParkedClaims(clock)
        store.on_batch = self.parked.on_batch
        self.watched = WatchedRuns(clock)
        self._runs: OrderedDict[RunId, LiveRun] = OrderedDict()
        self._tasks: dict[RunId, asyncio.Task[None]] = {}
        self._dirty: set[RunId] = set()
        self._used_at: dict[RunId, float] = {}
        self._letting_go: list[tuple[NamespaceId, RunId]] = []
        self.on_free: Callable[[], None] | None = None
        """Called when fewer runs are busy than before."""

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def busy(self) -> int:
        return len(self._tasks)

    @property
    def busy_by_namespace(self) -> Mapping[NamespaceId, int]:
        return Counter(self._runs[run].namespace for run in self._tasks if run in self._runs)

    # -- What comes in

    def adopt(self, claimed: Iterable[ClaimedRun]) -> None:
        for claim in claimed:
            former = self._runs.get(claim.run)  # it was taken from us (quarantined), and given back
            self._runs[claim.run] = LiveRun(
                claim,
                store=self._store,
                blobs=self._blobs,
                isolates=self._isolates,
                parked=self.parked,
            )
            if former is not None and claim.run not in self._tasks:
                self._run_alone(claim.run, former.close())
            self._kick(claim.run)

    def on_event(self, message: Message) -> None:
        """A committed event, by hint; `body` is absent when it is too big for a hint."""
        live = self._runs.get(message["run"])
        if live is None:
            return
        if message.get("body") is None:
            live.inbox.known_length(message["seq"] + 1)
        else:
            live.inbox.offer(
                StoredEntry(
                    message["seq"],
                    EntryType(message["type"]),
                    message["time"],
                    None,
                    None,
                    message["body"].encode(),
                )
            )
        self._kick(live.run)

    def look_again(self, runs: Iterable[tuple[NamespaceId, RunId]]) -> list[tuple[NamespaceId, RunId]]:
        """Owned runs with undelivered events: their hints were lost. Those that are not here are returned."""
        unknown = []
        for namespace, run in runs:
            live = self._runs.get(run)
            if live is None:
                unknown.append((namespace, run))
            elif run not in self._tasks:
                live.inbox.known_length(Seq(live.inbox.position + 1))
                self._kick(run)
        return unknown

    def _kick(self, run: RunId) -> None:
        self._dirty.add(run)
        self._used_at[run] = self._clock()
        if run not in self._tasks:
            self._tasks[run] = asyncio.create_task(self._drive(run))

    # -- Driving one run

    async def _drive(self, run: RunId) -> None:
        live = self._runs[run]
        try:
            await self._advance_all(live)
        except LostRunError as error:
            logger.info("%s", error)
            await self._forget(live, release=False)
        except (ChildDied, NotSurvivedAgainError) as error:
            await self._once_more(live, error)
        except Unavailable as error:
            logger.warning("run %s is put down: %s", run, error)
            await self._forget(live, release=True)
        except PlatformFault as error:
            await self._quarantine(live, error)
        except Exception as error:
            logger.exception("run %s failed inside the engine", run)
            await self._quarantine(live, error)
        finally:
            self._tasks.pop(run, None)
        if run in self._runs and (run in self._dirty or self._runs[run] is not live):
            self._kick(run)
        elif self.on_free is not None:
            self.on_free()

    async def _advance_all(self, live: LiveRun) -> None:
        while live.run in self._dirty:
            self._dirty.discard(live.run)
            while (committed := await _advance(live)) is not None:
                self._announce(committed)
                if live.ended:
                    await self._forget(live, release=False)
                    return
        if (self._warm_max == 0 or live.alone) and live.evictable:
            await self._put_down(live)

    def _announce(self, committed: Committed) -> None:
        facts = committed.run.facts
        if facts is None:
            return
        offered = [
            draft.name
            for draft in committed.drafts
            if draft.type == EntryType.SCHEDULE_TOOL_CALL
            and draft.route is Route.HOST
            and not draft.gated
            and draft.claim_id is None
        ]
        if any(
            draft.type == EntryType.SCHEDULE_TOOL_CALL and draft.route is Route.DISPATCHER and not draft.gated
            for draft in committed.drafts
        ):
            self._hints.send("api", {"k": "dispatch"})
        for claim, draft in committed.leased:
            self._hints.send_to(claim.api, leased_message(facts, claim.id, draft, committed.time))
        if offered:
            self._hints.send(
                "api",
                {
                    "k": "tasks",
                    "organization": facts.organization,
                    "namespace": facts.namespace,
                    "toolset": facts.toolset,
                    "tools": offered,
                },
            )
        run = committed.run.run
        if committed.ended and facts.is_child:
            self._hints.send("api", {"k": "child"})
        if committed.ended or not (offered or committed.leased) or run in self.watched:
            self._hints.send("api", {"k": "run", "run": run, "ended": committed.ended})

    async def _once_more(self, live: LiveRun, error: ChildDied | NotSurvivedAgainError) -> None:
        """At once, here, and in a child of its own: a run that kills children never wanders from worker to worker."""
        await live.close()
        if live.alone:
            await self._quarantine(live, error)
            return
        logger.warning("run %s is tried once more, alone: %s", live.run, error)
        live.alone = True
        self._dirty.add(live.run)

    async def _quarantine(self, live: LiveRun, error: Exception) -> None:
        report: dict[str, Json] = {
            "code": getattr(error, "code", "engine_crash"),
            "message": str(error),
            "delivered": live.delivered,
        }
        if isinstance(error, Divergence):
            report |= asdict(error)
        logger.error("run %s is quarantined: %s", live.run, error)
        try:
            await self._store.quarantine(live.namespace, live.run, report, live.owner_epoch)
        except Unavailable:
            logger.warning("the quarantine of run %s could not be recorded; it is put down", live.run)
            await self._forget(live, release=True)
            return
        await self._forget(live, release=False)
        self._hints.send("api", {"k": "run", "run": live.run, "ended": True})

    # -- Letting go

    async def _forget(self, live: LiveRun, *, release: bool) -> None:
        if self._runs.get(live.run) is live:
            del self._runs[live.run]
            self._dirty.discard(live.run)
            self._used_at.pop(live.run, None)
        await live.close()
        if release:
            self._letting_go.append((live.namespace, live.run))
            await self.flush_releases()

    async def _put_down(self, live: LiveRun) -> None:
        """Give an idle run back: its last report first, so that no survived event counts as new."""
        await live.report()
        if live.run in self._dirty or live.inbox.waiting:
            self._dirty.add(live.run)
            return
        await self._forget(live, release=True)

    async def give_back(self, runs: Iterable[tuple[NamespaceId, RunId]]) -> None:
        self._letting_go += runs
        await self.flush_releases()

    async def flush_releases(self) -> None:
        """Release what was put down; kept for later when the database does not answer."""
        letting_go, self._letting_go = self._letting_go, []
        letting_go = [where for where in letting_go if where[1] not in self._runs]  # claimed again meanwhile
        if not letting_go:
            return
        try:
            if await self._store.release_runs(self._store.worker, letting_go):
                # An event came after the last look, and its hint went to the former owner.
                self._hints.send("worker", {"k": "ready"})
        except Unavailable as error:
            logger.warning("%d runs are released later: %s", len(letting_go), error)
            self._letting_go += letting_go

    async def tidy(self) -> None:
        """Write overdue reports; evict what is idle, and of what is too much the longest unused."""
        now = self._clock()
        excess = len(self._runs) - self._warm_max
        idle = sorted((self._used_at.get(run, now), run) for run in self._runs if run not in self._tasks)
        for used_at, run in idle:
            live = self._runs[run]
            if live.has_report:
                self._run_alone(run, live.report())
            elif live.evictable and (excess > 0 or now - used_at > IDLE_S):
                excess -= 1
                self._run_alone(run, self._put_down(live))
        await self.flush_releases()

    def _run_alone(self, run: RunId, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except (LostRunError, Unavailable) as error:
                logger.info("run %s is put down: %s", run, error)
                if (live := self._runs.get(run)) is not None:
                    await self._forget(live, release=isinstance(error, Unavailable))
            finally:
                self._tasks.pop(run, None)
            if run in self._dirty and run in self._runs:
                self._kick(run)

        self._tasks[run] = asyncio.create_task(guarded())

    async def drain(self, timeout_s: float) -> None:
        """Finish what is under way, report and release everything."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=timeout_s)
        for live in list(self._runs.values()):
            if (task := self._tasks.get(live.run)) is not None:
                task.cancel()
            try:
                await live.report()
            except (LostRunError, Unavailable) as error:
                logger.info("run %s: %s", live.run, error)
            await live.close()
        self._letting_go += [(live.namespace, live.run) for live in self._runs.values()]
        self._runs.clear()
        await self.flush_releases()

    async def abandon(self) -> None:
        """Forget everything without a word to the database: another worker owns it now."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for live in self._runs.values():
            await live.close()
        self._runs.clear()
        self._tasks.clear()
        self._dirty.clear()
        self._letting_go.clear()


async def _advance(live: LiveRun) -> Committed | None:
    """Advance, loading again as often as the isolate was taken away for reasons that are not this run's."""
    while True:
        try:
            return await live.advance()
        except IsolateLost as error:
            logger.info("run %s is loaded again: %s", live.run, error)
            await live.close()
