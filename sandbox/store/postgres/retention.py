"""What only the role `rewind_retention` may do: delete journals, and take values out of them.

It has connections of its own: whatever else the control plane does, it cannot change an entry.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import asyncpg

from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.connection import Link

ROLE = "rewind_retention"
FIRST = NamespaceId("00000000-0000-0000-0000-000000000000")
NAMESPACES_AT_ONCE = 1_000
RUNS_AT_ONCE = 200
ENTRIES_AT_ONCE = 20_000
"""Deleted in one transaction: it holds locks, and no append waits for it longer than for that."""
ERASED_AT_ONCE = 20
KEPT_DAYS_DEFAULT = 30
KEYS_KEPT_MS = 31 * 86_400_000
"""Idempotency keys; the contract says at least 30 days."""
KEYS_AT_ONCE = 1_000

_EXPIRED = "select namespace_id, runs from expired_runs($1, $2, $3, $4, $5)"
_OLD_KEYS = """delete from idempotency where (organization_id, namespace_id, route, key) in (
  select organization_id, namespace_id, route, key from idempotency where created_at < now_ms() - $1::bigint
  order by created_at limit $2) returning 1"""
_ERASING = """select id from namespaces where deleted_at is not null and erased_at is null
  order by deleted_at limit $1"""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expired:
    """Runs of a namespace that are past their time; none: the namespace was looked at in vain."""

    namespace: NamespaceId
    runs: Sequence[RunId]


class Retention:
    def __init__(self, url: str) -> None:
        self._requests = Link(url, role=ROLE, name="retention")
        self._sweeps = Link(url, role=ROLE, name="retention sweeps")

    async def close(self) -> None:
        await self._requests.close()
        await self._sweeps.close()

    async def transaction(self, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:
        """Whatever a request asks for waits for no sweep. Errors: Unavailable, its effect unknown."""
        return await self._in_transaction(self._requests, work)

    async def _in_transaction(self, link: Link, work: Callable[[asyncpg.Connection], Awaitable[T]]) -> T:

        async def run(connection: asyncpg.Connection) -> T:
            async with connection.transaction():
                return await work(connection)

        done: T = await link.call(run)
        return done

    async def expired(self, after: NamespaceId) -> list[Expired]:
        """The next NAMESPACES_AT_ONCE namespaces after this one, and what is past its time in each."""

        async def read(connection: asyncpg.Connection) -> list[Expired]:
            rows = await connection.fetch(
                _EXPIRED, after, NAMESPACES_AT_ONCE, KEPT_DAYS_DEFAULT, RUNS_AT_ONCE, ENTRIES_AT_ONCE
            )
            return [
                Expired(NamespaceId(str(row["namespace_id"])), [RunId(str(run)) for run in row["runs"] or ()])
                for row in rows
            ]

        return await self._in_transaction(self._sweeps, read)

    async def delete_runs(self, namespace: NamespaceId, runs: Sequence[RunId]) -> int:
        """Those that have ended and are sealed, with everything that is theirs; how many these were."""

        async def delete(connection: asyncpg.Connection) -> int:
            deleted: int = await connection.fetchval("select delete_runs($1, $2)", namespace, list(runs))
            return deleted

        return await self._in_transaction(self._sweeps, delete)

    async def delete_old_keys(self) -> int:
        """Some of the idempotency keys that are older than they are kept."""

        async def delete(connection: asyncpg.Connection) -> int:
            return len(await connection.fetch(_OLD_KEYS, KEYS_KEPT_MS, KEYS_AT_ONCE))

        return await self._in_transaction(self._sweeps, delete)

    async def erase_some(self) -> int:
        """Go on with the namespaces that were deleted; how many have rows left."""

        async def erase(connection: asyncpg.Connection) -> int:
            left = 0
            for row in await connection.fetch(_ERASING, ERASED_AT_ONCE):
                empty = await connection.fetchval("select erase_some($1, $2)", row["id"], ERASED_AT_ONCE)
                left += not empty
            return left

        return await self._in_transaction(self._sweeps, erase)
