"""Seals the journals of ended runs, soon after their end and off the hot path. Any number of replicas."""

import asyncio

from app.background import repeat
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.interface import FROM_START
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.seals import Seal, SealLog
from sandbox.store.seal import Root

EVERY_S = 1.0
RUNS_AT_ONCE = 50
ENTRIES_AT_ONCE = 50
"""Digested in one turn of the event loop: a few ms, then others have theirs."""


class Sealer:
    def __init__(self, store: PostgresEdge) -> None:
        self._store = store
        self._log = SealLog(store.pool)

    async def run(self, stop: asyncio.Event) -> None:
        """Seal what has ended until `stop` is set."""

        async def seal() -> bool:
            return await self.seal_ended() == RUNS_AT_ONCE

        await repeat("sealing", seal, stop, every_s=EVERY_S)

    async def seal_ended(self) -> int:
        """Seal some runs that have ended; how many these are."""
        found = await self._log.unsealed(RUNS_AT_ONCE)
        for namespace, run, entries in found:
            await self._seal(namespace, run, entries)
        return len(found)

    async def seal(self, namespace: NamespaceId, run: RunId, entries: int) -> Seal:
        """The seal of an ended run with so many entries: made now if nobody was faster."""
        known = await self._log.read(namespace, run)
        return known if known is not None else await self._seal(namespace, run, entries)

    async def _seal(self, namespace: NamespaceId, run: RunId, entries: int) -> Seal:
        root, after = Root(run), FROM_START
        while page := await self._store.read_entries(namespace, run, after=after, limit=ENTRIES_AT_ONCE):
            root.add(page)
            after = page[-1].seq
        if root.entries != entries:
            raise ImpossibleEntry(f"run {run} has {root.entries} entries, its end says {entries}")
        return await self._log.seal(namespace, run, root.hex(), entries)
