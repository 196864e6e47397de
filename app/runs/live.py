"""Following runs: every watcher reads the journal itself, and learns from here how long it has become.

One look for all runs that are watched in this process, when a hint names one of them or a poll interval is
over, so that a thousand quiet streams cost one query a second. What several watchers of a run read at the same
place is read once: entries below a known length never change.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field

from app.runs.repository import Head, RunRepository
from sandbox.customers import on_behalf_of
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, RunId, Seq
from sandbox.store.hints import POLL_MAX_S
from sandbox.store.interface import RunStatus, StoredEntry
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.wakeups import Wakeups, Watch

logger = logging.getLogger(__name__)

QUIET_S = 15.0
"""A follower hears at least so often that it is still connected."""
PAGE = 100
PAGES_KEPT = 2
"""Of one run, for watchers that come to the same place a moment later."""
RETRY_S = 0.5
ENDED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.ABORTED})

Page = list[StoredEntry]


@dataclass(frozen=True, slots=True)
class Ended:
    """The last thing that a follower gets; `status` None: the run was deleted."""

    status: RunStatus | None


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has happened for QUIET_S."""


@dataclass(eq=False, slots=True)
class _Watched:
    namespace: NamespaceId
    head: Head | None = None
    gone: bool = False
    followers: set[asyncio.Event] = field(default_factory=set)
    pages: OrderedDict[tuple[int, int], asyncio.Task[Page]] = field(default_factory=OrderedDict)

    def tell(self) -> None:
        for follower in self.followers:
            follower.set()


class _Mark(Watch):
    """Woken by a hint: notes which run it was."""

    def __init__(self, live: "LiveJournals", run: RunId) -> None:
        super().__init__()
        self._live = live
        self._run = run

    def wake(self) -> None:
        self._live.look_at(self._run)


class LiveJournals:
    def __init__(
        self, store: PostgresEdge, repository: RunRepository, wakeups: Wakeups, stop: asyncio.Event
    ) -> None:
        self._store = store
        self._repository = repository
        self._wakeups = wakeups
        self._stop = stop
        self._watched: dict[RunId, _Watched] = {}
        self._marked: set[RunId] = set()
        self._look = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many runs are watched."""
        return len(self._watched)

    async def follow(
        self, namespace: NamespaceId, run: RunId, after: Seq
    ) -> AsyncGenerator[Page | Quiet | Ended, None]:
        """Entries after `after` in order, as they are recorded, until the run has ended or this process stops.

        A database that does not answer is waited for.
        """
        with self._following(namespace, run) as (watched, changed):
            while not self._stop.is_set():
                changed.clear()
                if watched.gone:
                    yield Ended(None)
                    return
                head = watched.head
                if head is not None and after < head.next_seq - 1:
                    page = await self._page(watched, run, after, min(after + PAGE, head.next_seq - 1))
                    if page:
                        yield page
                        after = page[-1].seq
                        continue
                elif head is not None and head.status in ENDED:
                    yield Ended(head.status)
                    return
                try:
                    async with asyncio.timeout(QUIET_S):
                        await changed.wait()
                except TimeoutError:
                    yield Quiet()

    def look_at(self, run: RunId) -> None:
        self._marked.add(run)
        self._look.set()

    # -- Who watches

    @contextlib.contextmanager
    def _following(self, namespace: NamespaceId, run: RunId) -> Iterator[tuple[_Watched, asyncio.Event]]:
        if run not in self._watched:
            self._wakeups.name_watched([run])
        watched = self._watched.setdefault(run, _Watched(namespace))
        changed = asyncio.Event()
        watched.followers.add(changed)
        with self._wakeups.watch_run(run, watch=_Mark(self, run)):
            self.look_at(run)
            if self._loop is None:
                self._loop = asyncio.create_task(self._look_on(), name="live journals")
            try:
                yield watched, changed
            finally:
                watched.followers.discard(changed)
                if not watched.followers:
                    self._watched.pop(run, None)

    async def _look_on(self) -> None:
        """Look at what was marked at once, and at everything that is watched every POLL_MAX_S."""
        on_behalf_of("")  # it was begun by one of many, for all of them
        clock = asyncio.get_running_loop().time
        everything_at = clock()
        try:
            while self._watched and not self._stop.is_set():
                self._look.clear()
                if clock() >= everything_at:
                    everything_at = clock() + POLL_MAX_S
                    self._wakeups.name_watched(list(self._watched))
                    self._marked.update(self._watched)
                marked = [run for run in self._marked if run in self._watched]
                self._marked.clear()
                await self._look_at(marked)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, everything_at - clock())):
                        await self._look.wait()
        finally:
            self._loop = None
            for watched in self._watched.values():
                watched.tell()

    async def _look_at(self, runs: list[RunId]) -> None:
        if not runs:
            return
        try:
            heads = await self._repository.heads([(self._watched[run].namespace, run) for run in runs])
        except Unavailable as error:
            logger.warning("live journals wait: %s", error)
            return
        except Exception:
            logger.exception("live journals could not look; they go on")
            return
        for run in runs:
            watched, head = self._watched.get(run), heads.get(run)
            if watched is not None and (head is None or head != watched.head):
                watched.head, watched.gone = head, head is None
                watched.tell()

    # -- Reading

    async def _page(self, watched: _Watched, run: RunId, after: Seq, last: int) -> Page:
        """Entries after `after` up to `last`; nothing when the database does not answer."""
        key = (after, last)
        reading = watched.pages.get(key)
        if reading is None or (reading.done() and (reading.cancelled() or reading.exception())):
            reading = watched.pages[key] = asyncio.create_task(
                self._store.read_entries(watched.namespace, run, after=after, limit=last - after)
            )
            reading.add_done_callback(_failure_seen)
            while len(watched.pages) > PAGES_KEPT:
                watched.pages.popitem(last=False)
        try:
            return await asyncio.shield(reading)
        except Unavailable as error:
            logger.warning("a follower of run %s waits: %s", run, error)
            await asyncio.sleep(RETRY_S)
            return []


def _failure_seen(reading: "asyncio.Task[Page]") -> None:
    """Its followers may all be gone."""
    if not reading.cancelled():
        reading.exception()
