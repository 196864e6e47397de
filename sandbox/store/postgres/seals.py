"""Seals of ended runs: what is not sealed yet, the log per namespace, and one seal."""

from dataclasses import dataclass
from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId, Sha256, TimeMs
from sandbox.store.postgres.connection import acquired

_UNSEALED = """select namespace_id, run_id, end_seq from run_facts
  where ended_at is not null and not sealed order by ended_at limit $1"""
_SEAL = "select root, entries, sealed_at, previous from seal_run($1, $2, $3, $4)"
_READ = "select root, entries, sealed_at, previous from seals where namespace_id = $1 and run_id = $2"


@dataclass(frozen=True, slots=True)
class Seal:
    """`previous`: the link of the namespace's chain before this seal; None: it is the first."""

    root: Sha256
    entries: int
    sealed_at: TimeMs
    previous: Sha256 | None


class SealLog:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def unsealed(self, limit: int) -> list[tuple[NamespaceId, RunId, int]]:
        """(namespace, run, number of entries) of ended runs without a seal, the one that ended first in front."""
        async with acquired(self._pool) as connection:
            rows = await connection.fetch(_UNSEALED, limit)
        return [
            (NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"])), row["end_seq"] + 1)
            for row in rows
        ]

    async def seal(self, namespace: NamespaceId, run: RunId, root: Sha256, entries: int) -> Seal:
        """Add the run to its namespace's log; once sealed, the first seal is answered."""
        async with acquired(self._pool) as connection:
            return _seal_of(await connection.fetchrow(_SEAL, namespace, run, bytes.fromhex(root), entries))

    async def read(self, namespace: NamespaceId, run: RunId) -> Seal | None:
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(_READ, namespace, run)
        return None if row is None else _seal_of(row)


def _seal_of(row: Any) -> Seal:
    return Seal(
        Sha256(row["root"].hex()),
        row["entries"],
        TimeMs(row["sealed_at"]),
        None if row["previous"] is None else Sha256(row["previous"].hex()),
    )
