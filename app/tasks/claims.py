"""Claims of tasks: leased at once, or as soon as something is offered while the claim is parked."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from app.tasks.handing_out import LEASE_MS, HandingOut
from app.tasks.leases import Leases
from app.tasks.schemas import ClaimBody, NextClaim
from app.tasks.strays import Strays
from app.toolsets.names import split_name, to_identifier
from app.toolsets.service import Toolsets
from app.values import Values
from sandbox.journal.ids import NamespaceId, OrganizationId
from sandbox.store.interface import Task, TaskFilter
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.tasks import TaskKey, key_of
from sandbox.store.wakeups import ParkedWatch, Wakeups
from tenancy.errors import InsufficientScope
from tenancy.principals import Principal
from tenancy.service import Tenancy

SETTLED_FIRST_S = 0.1
"""After settling, the next calls are awaited so long before a look: hints tell of them, a look would find nothing."""
FILTERS_MAX = 10_000
LOOK_EVERY_S = 1.0
"""While all claims of a filter are answered with calls that were leased to them, what a lost hint told of waits so long."""
Gone = Callable[[], Awaitable[bool]]


class Look(NamedTuple):
    """The last look of a filter at what is on offer."""

    at: float
    dry: bool
    """Whether it took all there was."""


class Claims:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        leases: Leases,
        toolsets: Toolsets,
        tenancy: Tenancy,
        values: Values,
        wakeups: Wakeups,
        stop: asyncio.Event,
    ) -> None:
        self._store = store
        self._handing_out = HandingOut(store, leases, values)
        self._toolsets = toolsets
        self._tenancy = tenancy
        self._wakeups = wakeups
        self._stop = stop
        self._strays = Strays(store)
        wakeups.on_stray = self._strays.on_hint
        self._looks: dict[TaskFilter, Look] = {}

    async def wanted(self, principal: Principal, body: ClaimBody, named: str | None) -> TaskFilter:
        """Which calls this claim may take; a key that names no namespace takes from all."""
        narrow = principal.narrow
        if narrow.run is not None:
            raise InsufficientScope("This token is for one run and cannot claim tasks.")
        if body.toolset is not None:
            principal.require_toolset(body.toolset)
        namespace = None
        if body.namespace is not None or named is not None or principal.namespace is not None:
            within = await self._tenancy.namespace(principal, body.namespace or named, write=True)
            namespace = within.id
        tools = None if body.tools is None else await self._script_names(principal, body.tools)
        return TaskFilter(principal.organization, namespace, body.toolset or narrow.toolset, tools)

    async def claim(
        self, wanted: TaskFilter, body: ClaimBody, gone: Gone, *, after: Awaitable[None] | None = None
    ) -> list[dict[str, Any]]:
        """Hand out up to `max` tasks, waiting up to `wait` for the first; `after` is done while watching already.

        Calls whose arguments are refused are settled here, and the wait goes on.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + body.wait / 1000
        while True:
            tasks = await self._lease(wanted, body, gone, after)
            given = await self._handing_out.views(tasks)
            left_ms = int((ends - loop.time()) * 1000)
            if given or not tasks or left_ms <= 0:
                return given
            body, after = body.model_copy(update={"wait": left_ms}), None

    async def _lease(
        self, wanted: TaskFilter, body: ClaimBody, gone: Gone, after: Awaitable[None] | None
    ) -> list[Task]:
        """Lease what may be handed out.

        A caller that has gone gets nothing: what would have been leased to it stays on offer. One that asks
        again with its `claim_id` is answered there, and what is leased to the claim is left alone here.
        """
        claim_id = _unique(wanted, body.claim_id)
        loop = asyncio.get_running_loop()
        linger_s = body.linger_ms / 1000 if isinstance(body, NextClaim) else 0.0
        tasks: list[Task] = []
        left = False
        try:
            with self._wakeups.park(wanted, claim_id, body.max, lazy=after is not None) as watch:
                if after is not None:
                    await after
                    if self._settled_first(wanted):
                        await watch.wait(min(SETTLED_FIRST_S, body.wait / 1000))
                ends = loop.time() + body.wait / 1000
                waited = False
                while True:
                    if linger_s and watch.woken:
                        await asyncio.sleep(linger_s)
                    left = waited and await gone()
                    tasks = watch.take()
                    if not left and self._worth_a_look(wanted, watch, tasks):
                        tasks = await self._look(wanted, claim_id, body.max, watch, tasks)
                    if watch.replaced:
                        tasks = []
                        break
                    left = left or (waited and await gone())
                    tasks = _each_once(tasks + watch.take())  # those that came meanwhile are answered too
                    tasks, spare = _within(0 if left else body.max, tasks)
                    await self._give_back(wanted, spare)
                    tasks = [] if left else tasks
                    left_s = ends - loop.time()
                    if left or tasks or left_s <= 0 or self._stop.is_set():
                        break
                    await watch.wait(left_s)
                    waited = True
                    if watch.replaced:
                        break
        finally:
            self._strays.closed(claim_id, tasks, gone=left)
        return tasks

    def _settled_first(self, wanted: TaskFilter) -> bool:
        look = self._looks.get(wanted)
        return look is not None and look.dry

    def _worth_a_look(self, wanted: TaskFilter, watch: ParkedWatch, leased: Sequence[Task]) -> bool:
        """What a worker leased in its append came with a hint, and needs no look; what else is on offer does.

        A claim that is answered with its leases alone would let one busy run keep all others waiting.
        """
        if watch.offers or not leased:
            return watch.look
        look = self._looks.get(wanted)
        return look is None or asyncio.get_running_loop().time() - look.at >= LOOK_EVERY_S

    async def _look(
        self, wanted: TaskFilter, claim_id: str, limit: int, watch: ParkedWatch, leased: Sequence[Task]
    ) -> list[Task]:
        """What the claim holds with what is on offer, as far as there is room."""
        known = watch.offers.copy()
        watch.offers.clear()
        found = await self._store.claim_tasks(wanted, claim_id, limit, LEASE_MS)
        dry = len(found) < limit
        if not dry:
            watch.offers |= known  # there may be more, for the next claim
        if len(self._looks) >= FILTERS_MAX:
            self._looks.clear()
        self._looks[wanted] = Look(asyncio.get_running_loop().time(), dry)
        return _each_once([*found, *leased])

    def look_again(
        self, organization: OrganizationId, namespace: NamespaceId, toolset: str | None, tool: str
    ) -> None:
        """A call with limits has ended: another one, which waits for its place, may begin."""
        self._wakeups.wake_task(organization, namespace, toolset, tool)

    async def _give_back(self, wanted: TaskFilter, tasks: Sequence[Task]) -> None:
        await self._store.give_back_tasks([(key_of(task), task.lease_until) for task in tasks])
        for task in tasks:
            self._wakeups.wake_task(wanted.organization, task.namespace, wanted.toolset, task.tool)

    async def _script_names(self, principal: Principal, originals: list[str]) -> tuple[str, ...]:
        """What these tools are called in scripts; only names that are no identifiers need a look."""
        names: list[str] = []
        mapped: list[str] = []
        for original in dict.fromkeys(originals):
            _, name = split_name(original)
            (names if to_identifier(name) == name else mapped).append(original)
        if mapped:
            found = await self._toolsets.script_names(principal.organization, mapped)
            names += [name for _, name in found]
        return tuple(sorted(names))


def _within(limit: int, tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """What a claim is answered with, and what is too much for it (two workers may lease to it at the same time).

    A lease that is longer than it was at first may have been an answer of this claim, here or at another api:
    it is never given back.
    """
    spare = [task for task in tasks[limit:] if task.lease_until == task.begun_at + LEASE_MS]
    return [task for task in tasks if task not in spare], spare


def _each_once(tasks: Sequence[Task]) -> list[Task]:
    """A call that a look found may be told of by its hint as well."""
    once: dict[TaskKey, Task] = {}
    for task in tasks:
        once.setdefault(key_of(task), task)
    return list(once.values())


def _unique(wanted: TaskFilter, claim_id: str | None) -> str:
    """The claim's name in the store: callers choose theirs, and two organizations may choose the same."""
    if claim_id is None:
        return str(uuid.uuid4())
    return str(uuid.uuid5(uuid.UUID(wanted.namespace or wanted.organization), claim_id.lower()))
