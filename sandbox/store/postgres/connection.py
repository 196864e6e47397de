"""How the processes connect: role, planner settings, and what a lost connection means.

The settings keep generic plans of the append functions cheap and stable: their statements are key look-ups,
and a plan made on an empty table must not turn into scans later.
"""

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg
import orjson

from sandbox.customers import owner
from sandbox.journal.errors import QuotaExceeded, Unavailable
from sandbox.store.postgres.reach import NOTHING, TenantPool, reach

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10
COMMAND_TIMEOUT_S = 30
PLANNER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
}
LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg says of a connection that broke in the middle of a statement
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    ConnectionError,
    OSError,
    TimeoutError,
)
"""The connection or the server is gone: whether a statement under way took effect is unknown."""

QUOTA_STATE = "RWQ01"
"""What our triggers raise when a quota is used up, with the refusal as detail."""
RETRY_S = 30
_WHAT = {
    "active_runs": "active runs",
    "runs_per_month": "runs in a month",
    "cpu_ms_per_month": "ms of CPU in a month",
    "scripts_per_month": "new scripts in a month",
    "storage_bytes": "bytes of journals and values",
}
_WAY_OUT = {
    "active_runs": "Wait until some have ended, or cancel some",
    "storage_bytes": "Delete runs that have ended, or keep them for fewer days",
}
"""Of quotas that no month renews."""

T = TypeVar("T")


async def connect(url: str, *, role: str, name: str, planner: bool = True) -> asyncpg.Connection:
    settings = {"application_name": f"rewind {name}", "role": role}
    if planner:
        settings |= PLANNER_SETTINGS
    return await asyncpg.connect(
        url, server_settings=settings, timeout=CONNECT_TIMEOUT_S, command_timeout=COMMAND_TIMEOUT_S
    )


async def create_pool(url: str, *, role: str, name: str, size: int) -> asyncpg.Pool:
    """Connections for reads and rare writes; appends go through their batcher's own connection.

    They keep no state between uses (no session settings, locks, cursors), so they are not reset, which would
    cost a round trip for each use.
    """
    return await asyncpg.create_pool(
        url,
        min_size=1,
        max_size=size,
        timeout=CONNECT_TIMEOUT_S,
        command_timeout=COMMAND_TIMEOUT_S,
        reset=_keep,
        server_settings={"application_name": f"rewind {name}", "role": role, "jit": "off"},
    )


async def _keep(_connection: asyncpg.Connection) -> None:
    return


@asynccontextmanager
async def acquired(pool: asyncpg.Pool | TenantPool) -> AsyncIterator[Any]:
    """A pooled connection; losing it raises Unavailable, and nobody gets it again.

    Of a TenantPool, what the current task may reach decides which connection it is. A tenant's is in a
    transaction with the tenant's settings, which ends with the block: an exception undoes all of it. A customer has
    a share of either pool and waits for its own.
    """
    if not isinstance(pool, TenantPool):
        async with _connected(pool, scoped=False) as connection:
            yield connection
        return
    if reach() == NOTHING:
        raise RuntimeError("nobody has said what this task may reach: see sandbox/store/postgres/reach.py")
    chosen, shares = (
        (pool.system, pool.system_shares) if reach().system else (pool.scoped, pool.scoped_shares)
    )
    async with shares.of(owner()), _connected(chosen, scoped=True) as connection:
        yield connection


@asynccontextmanager
async def _connected(chosen: Any, *, scoped: bool) -> AsyncIterator[Any]:
    current = reach()
    try:
        async with chosen.acquire(timeout=CONNECT_TIMEOUT_S) as connection:
            try:
                if not scoped or (current.system and current.actor is None):
                    yield connection
                else:
                    async with connection.transaction():
                        await connection.execute(current.settings_sql)
                        yield connection
            except LOST:
                with contextlib.suppress(asyncpg.InterfaceError):  # it was lost, and the pool let go of it
                    connection.terminate()
                raise
            except asyncpg.PostgresError as error:
                if error.sqlstate != QUOTA_STATE:
                    raise
                raise quota_exceeded(orjson.loads(error.detail)) from error
    except LOST as error:
        raise Unavailable(f"the database is not reachable: {error or type(error).__name__}") from error


def quota_exceeded(refusal: dict[str, Any]) -> QuotaExceeded:
    """A refusal of the database's quota functions, as the API tells it; times in ISO 8601."""
    quota, limit, resets_ms = refusal["quota"], refusal["limit"], refusal["resets_at"]
    message = f"The namespace may have at most {limit:,} {_WHAT[quota]}, and has {refusal['used']:,}."
    if resets_ms is None:
        retry_s, resets_at = RETRY_S, None
        message += f" {_WAY_OUT[quota]}, or raise the quota."
    else:
        at = dt.datetime.fromtimestamp(resets_ms / 1000, dt.UTC)
        resets_at = f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
        retry_s = max(1, -(-(resets_ms - refusal["now"]) // 1000))
        message += f" It begins anew at {resets_at}, or raise the quota."
    told = {"quota": quota, "limit": limit, "used": refusal["used"], "resets_at": resets_at}
    return QuotaExceeded(message, extra=told, retry_after_s=retry_s)


class Link:
    """One connection that is made when needed and made again after it was lost."""

    def __init__(self, url: str, *, role: str, name: str) -> None:
        self._url = url
        self._role = role
        self._name = name
        self._connection: asyncpg.Connection | None = None
        self._turn = asyncio.Lock()

    async def _get(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._url, role=self._role, name=self._name)
        return self._connection

    async def call(self, run: Callable[[asyncpg.Connection], Any]) -> Any:
        """Run one statement after the other; Unavailable when the connection was lost, its effect being unknown."""
        try:
            async with self._turn:
                return await run(await self._get())
        except LOST as error:
            self._reset()
            raise Unavailable(f"the database is not reachable: {error or type(error).__name__}") from error

    def _reset(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            await connection.close(timeout=5)
