"""Waiting for something to look at: a run that changed, a call that was offered.

Register first, look second, wait third: then nothing is missed between the look and the wait. A wait ends
after POLL_MAX_S at the latest, hint or not.
"""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sandbox.journal.ids import RunId
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.interface import Task, TaskFilter
from sandbox.store.leases import leased_task, park_message, unpark_message

ANNOUNCE_S = 0.8
"""How often a parked claim is named to the workers."""
WATCHED_S = 3.0
"""How long a worker remembers that a run is watched; whoever watches names it every POLL_MAX_S."""
WATCHED_AT_ONCE = 1_000
LOOKS_PER_S = 50
"""Of all waiting claims of one organization, without a hint; up to so many claims, each looks every second."""
UNSEEN_MAX = 1_000
"""Offers remembered for an organization while no claim is free to look; more are found by looking."""

Offer = tuple[str, str | None, str]
"""(namespace, toolset, tool) of a call that is on offer."""


class Watch:
    """What one waiter waits on; `wait` returns when it is worth looking again."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        self._event.set()

    @property
    def woken(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether it was woken, and not only a while has passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, POLL_MAX_S)):
                await self._event.wait()
        woken = self._event.is_set()
        self._event.clear()
        return woken


class ParkedWatch(Watch):
    """A claim that waits: workers may lease new calls to it; `tasks` are those that came with a hint."""

    def __init__(self, announce: Callable[..., None], beside: Callable[[], int], *, lazy: bool) -> None:
        super().__init__()
        self.look = True
        """Whether it is worth looking at what is on offer, which costs a query."""
        self._looked_at = time.monotonic()
        self._beside = beside
        self.tasks: list[Task] = []
        self.offers: set[Offer] = set()
        """Calls on offer that this claim was woken for and has not looked at yet."""
        self.replaced = False
        """The caller asked again: that request is answered, this one's connection is dead."""
        self._announce = announce
        self._announced_at = time.monotonic()
        announce(lazy=lazy)

    def take(self) -> list[Task]:
        """The tasks that workers have leased to this claim since the last look."""
        taken, self.tasks = self.tasks, []
        return taken

    async def wait(self, timeout_s: float) -> bool:
        now = time.monotonic()
        if now - self._announced_at >= ANNOUNCE_S:
            self._announced_at = now
            self._announce()
        woken = await super().wait(timeout_s)
        now = time.monotonic()
        # Looks without a hint are a safety net, which many claims of one organization share.
        self.look = woken or now - self._looked_at >= self._beside() / LOOKS_PER_S
        if self.look:
            self._looked_at = now
        return woken


class Wakeups:
    def __init__(self, hints: HintBus) -> None:
        self._hints = hints
        self._parked: dict[str, ParkedWatch] = {}
        self.on_stray: Callable[[str, Task, Callable[[], None]], None] | None = None
        """Called with a claim that does not wait here any more, a task that was leased to it, and what wakes
        another claim once the task is on offer again."""
        self._runs: dict[str, list[tuple[Watch, bool]]] = defaultdict(list)
        self._tasks: dict[str, dict[ParkedWatch, TaskFilter]] = defaultdict(dict)
        self._unseen: dict[str, set[Offer]] = defaultdict(set)
        hints.on_message(self._on_hint)

    @contextlib.contextmanager
    def watch_run(
        self, run: RunId, *, only_its_end: bool = False, watch: Watch | None = None
    ) -> Iterator[Watch]:
        """Woken when the run's journal grew or its status changed, or only when the run has ended (or stopped).

        Workers tell of everything that a run does only while somebody names it with `name_watched`.
        """
        pair = (watch or Watch(), only_its_end)
        self._runs[run].append(pair)
        try:
            yield pair[0]
        finally:
            self._runs[run].remove(pair)
            if not self._runs[run]:
                del self._runs[run]

    def name_watched(self, runs: Sequence[RunId]) -> None:
        """Ask the workers to tell of every append to these runs for the next WATCHED_S."""
        for start in range(0, len(runs), WATCHED_AT_ONCE):
            self._hints.send("worker", {"k": "watch", "runs": list(runs[start : start + WATCHED_AT_ONCE])})

    @contextlib.contextmanager
    def park(
        self, wanted: TaskFilter, claim_id: str, slots: int, *, lazy: bool = False
    ) -> Iterator[ParkedWatch]:
        """Wait as a claim that workers know of: a new call may be leased to it as it is recorded.

        `lazy`: an event that leads to such a call is about to be recorded; the two hints travel together.
        """
        message = park_message(claim_id, wanted, slots, self._hints.address)
        waiting = self._tasks[wanted.organization]
        watch = ParkedWatch(partial(self._hints.send, "worker", message), waiting.__len__, lazy=lazy)
        former = self._parked.get(claim_id)
        if former is not None:
            former.replaced = True
            former.wake()
        self._parked[claim_id] = watch
        unseen = self._unseen.get(wanted.organization, set())
        for offer in [offer for offer in unseen if _takes(wanted, offer)]:
            unseen.discard(offer)
            watch.offers.add(offer)
            watch.wake()
        waiting[watch] = wanted
        try:
            yield watch
        finally:
            if not watch.replaced:
                del self._parked[claim_id]
                self._hints.send("worker", unpark_message(claim_id, wanted), lazy=True)
            del waiting[watch]
            for offer in watch.offers:  # answered with other calls, without a look at these
                self.wake_task(wanted.organization, *offer)
            if not waiting and self._tasks.get(wanted.organization) is waiting:
                del self._tasks[wanted.organization]

    def wake_run(self, run: RunId, *, ended: bool) -> None:
        for watch, only_its_end in self._runs.get(run, ()):
            if ended or not only_its_end:
                watch.wake()

    def wake_task(self, organization: str, namespace: str, toolset: str | None, tool: str) -> None:
        """One waiter looks at each offered call, one that sleeps if there is any; with none, the next one that comes."""
        offer = (namespace, toolset, tool)
        taker: ParkedWatch | None = None
        for watch, wanted in self._tasks.get(organization, {}).items():
            if (taker is None or not watch.woken) and _takes(wanted, offer):
                taker = watch
                if not watch.woken:
                    break
        if taker is not None:
            taker.offers.add(offer)
            taker.wake()
        elif len(unseen := self._unseen[organization]) < UNSEEN_MAX:
            unseen.add(offer)

    def _on_leased(self, message: Message) -> None:
        watch = self._parked.get(message["claim"])
        if watch is not None:
            if message["body"] is not None:
                watch.tasks.append(leased_task(message))
            watch.wake()
        elif self.on_stray is not None and message["body"] is not None:
            task = leased_task(message)
            offer = partial(
                self.wake_task, message["organization"], task.namespace, message["toolset"], task.tool
            )
            self.on_stray(message["claim"], task, offer)

    def _on_hint(self, message: Message) -> None:
        kind = message.get("k")
        if kind == "leased":
            self._on_leased(message)
            return
        if kind == "run":
            self.wake_run(RunId(message["run"]), ended=message.get("ended", False))
        elif kind == "tasks":
            for tool in message["tools"]:
                self.wake_task(message["organization"], message["namespace"], message["toolset"], tool)


def _takes(wanted: TaskFilter, offer: Offer) -> bool:
    namespace, toolset, tool = offer
    return (
        wanted.namespace in {None, namespace}
        and wanted.toolset in {None, toolset}
        and (wanted.tools is None or tool in wanted.tools)
    )
