"""The dispatcher: claims the calls that Rewind makes itself, any number of replicas side by side.

A claim is durable before its call is sent. While a call is in the air its lease is renewed; when a dispatcher
dies the lease runs out, and the scheduler offers the call again if it may be repeated, or completes it with
OutcomeUnknownError. Each server has room for so many calls, so that one that hangs delays no other.
"""

import asyncio
import contextlib
import logging
import uuid
from collections import Counter

from app.background import repeat
from app.dispatcher.calls import CallMaker, Flight
from app.dispatcher.children import ChildEnds
from app.dispatcher.mcp import Servers, hush
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import OrganizationId
from sandbox.store.hints import POLL_MAX_S, HintBus, Message
from sandbox.store.interface import LEASE_MS
from sandbox.store.postgres.calls import CallKey, ClaimedCall, ServerKey
from sandbox.store.postgres.edge import PostgresEdge

logger = logging.getLogger(__name__)

CLAIM_MAX = 100
IN_FLIGHT_MAX = 4_000
ORGANIZATION_MAX = 500
SERVER_MAX = 32
"""Calls in the air for one server of a toolset."""
RENEW_S = 6.0
STOPS_S = 1.0
TIDY_S = 10.0
GRACE_S = 6.0
"""Calls in the air at SIGTERM are given so long."""


class Dispatcher:
    def __init__(
        self, maker: CallMaker, children: ChildEnds, *, store: PostgresEdge, servers: Servers, hints: HintBus
    ) -> None:
        self._store = store
        self._maker = maker
        self._children = children
        self._servers = servers
        self._id = str(uuid.uuid4())
        self._flights: dict[CallKey, Flight] = {}
        self._look = asyncio.Event()
        self._child_ended = asyncio.Event()
        self._waiting: set[ServerKey] = set()
        """Servers that may have more calls than room."""
        self._claiming = asyncio.Lock()
        hints.on_message(self._on_hint)

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then let what is in the air come in, for a while."""
        hush()
        never = asyncio.Event()  # leases are renewed until the last call is in
        loops = [
            asyncio.create_task(
                repeat(f"dispatcher {work.__name__}", work, never, every_s=every_s, wake=wake)
            )
            for work, every_s, wake in (
                (self._claim, POLL_MAX_S, self._look),
                (self._children.handle, POLL_MAX_S, self._child_ended),
                (self._renew, RENEW_S, None),
                (self._stop_calls, STOPS_S, None),
                (self._tidy, TIDY_S, None),
            )
        ]
        await stop.wait()
        loops[0].cancel()
        await asyncio.gather(loops[0], return_exceptions=True)
        await self._drain()
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await self._servers.close()
        await self._maker.close()

    def _on_hint(self, message: Message) -> None:
        if message.get("k") == "dispatch":
            self._look.set()
        elif message.get("k") == "child":
            self._child_ended.set()

    async def _claim(self) -> None:
        while (limit := min(CLAIM_MAX, IN_FLIGHT_MAX - len(self._flights))) > 0:
            async with self._claiming:
                free, full = self._room()
                calls = await self._store.claim_calls(
                    self._id, limit, lease_ms=LEASE_MS, server_max=SERVER_MAX, free=free, full=full
                )
                for call in calls:
                    self._begin(call)
            taken = Counter(call.server for call in calls)
            self._waiting = {server for server, room in free.items() if room == 0} | {
                server for server, count in taken.items() if count >= free.get(server, SERVER_MAX)
            }
            if len(calls) < limit:
                return

    def _room(self) -> tuple[dict[ServerKey, int], list[OrganizationId]]:
        """How many more calls the servers in use may get, and which organizations have enough."""
        servers = Counter(flight.call.server for flight in self._flights.values())
        organizations: Counter[OrganizationId] = Counter()
        for (organization, _, _), count in servers.items():
            organizations[organization] += count
        free = {server: max(0, SERVER_MAX - count) for server, count in servers.items()}
        return free, [found for found, count in organizations.items() if count >= ORGANIZATION_MAX]

    def _begin(self, call: ClaimedCall) -> None:
        former = self._flights.get(call.key)
        if former is not None:  # its lease ran out, and it came back to us
            former.drop()
        flight = Flight(call)
        self._flights[call.key] = flight
        flight.task = asyncio.create_task(self._fly(flight), name=f"call {call.run}/{call.call}")

    async def _fly(self, flight: Flight) -> None:
        try:
            await self._maker.serve(flight, self._id)
        finally:
            if self._flights.get(flight.call.key) is flight:
                del self._flights[flight.call.key]
            if (
                flight.call.paced
                or flight.call.server in self._waiting
                or len(self._flights) + 1 >= IN_FLIGHT_MAX
            ):
                self._look.set()

    async def _renew(self) -> None:
        """Lengthen the leases. What was settled elsewhere is dropped, what we do not know of is given back.

        The latter was claimed by a statement whose answer was lost; it has not been sent.
        """
        async with self._claiming:
            flights = dict(self._flights)
            held = await self._store.renew_calls(self._id, LEASE_MS)
            unknown = [key for key in held if key not in flights and key not in self._flights]
            if unknown:
                logger.warning("%d calls that were claimed and never sent are given back", len(unknown))
                await self._store.release_calls(self._id, unknown)
        for key, flight in flights.items():
            if held.get(key) != flight.call.attempt:
                flight.drop()

    async def _stop_calls(self) -> None:
        if not self._flights:
            return
        for key in await self._store.stopping_calls(self._id):
            if (flight := self._flights.get(key)) is not None:
                flight.stop()

    async def _tidy(self) -> None:
        self._servers.tidy()

    async def _drain(self) -> None:
        """Give back what has not been sent; wait for the rest. What is left then is settled by its lease."""
        unsent = [key for key, flight in self._flights.items() if not flight.sent and not flight.settling]
        for key in unsent:
            self._flights[key].drop()
        tasks = [flight.task for flight in self._flights.values() if flight.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if unsent:
            with contextlib.suppress(Unavailable):
                await self._store.release_calls(self._id, unsent)
