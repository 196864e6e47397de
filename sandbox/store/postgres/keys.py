"""The keys of namespaces: made at first use, wrapped by the data master key, kept for a while, destroyed for good.

A destroyed key leaves its row without a key, so that none is made in its place. Whoever has it in memory stops
using it: the runs of the namespace are taken from their owners in the transaction that destroys it, the hint
`erased` drops it from every process of the host at once, and no process uses a key for longer than KEPT_S
without having read its row again.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

import asyncpg

from sandbox.config import SettingsError
from sandbox.journal.errors import ApiError, Unavailable
from sandbox.journal.ids import NamespaceId
from sandbox.store.hints import Message
from sandbox.store.postgres.connection import acquired
from sandbox.store.sealing import DataKey, NamespaceSeal, SealBroken

KEPT_MAX = 10_000
"""Keys in memory; the one that was used longest ago goes."""
KEPT_S = 60.0
REWRAPPED_AT_ONCE = 500

_READ = "select namespace_id, wrapped from namespace_keys where namespace_id = any($1::uuid[])"
_MAKE = """insert into namespace_keys (namespace_id, wrapped, created_at)
  select ns, wrapped, now_ms() from unnest($1::uuid[], $2::bytea[]) k (ns, wrapped) order by ns on conflict do nothing"""
_DESTROY = "select erase_namespace($1)"
_ANY = "select namespace_id, wrapped from namespace_keys where wrapped is not null order by created_at desc limit 1"
_PAGE = """select namespace_id, wrapped from namespace_keys
  where namespace_id > $1 and wrapped is not null order by namespace_id limit $2"""
_REWRAP = """update namespace_keys k set wrapped = n.fresh
  from unnest($1::uuid[], $2::bytea[], $3::bytea[]) n (ns, old, fresh)
  where k.namespace_id = n.ns and k.wrapped = n.old"""
_FIRST = NamespaceId("00000000-0000-0000-0000-000000000000")


class DataErased(ApiError):
    """The namespace's key was destroyed: what it sealed can be read by nobody, and nothing new is sealed."""

    code: ClassVar[str] = "history_unavailable"
    status: ClassVar[int] = 409

    def __init__(self, namespace: NamespaceId) -> None:
        super().__init__(
            f"The data of namespace {namespace} was erased: its key is destroyed. Use another namespace."
        )
        self.namespace = namespace


class NamespaceKeys:
    def __init__(
        self,
        pool: asyncpg.Pool,
        master: DataKey,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._master = master
        self._clock = clock
        self._kept: OrderedDict[NamespaceId, tuple[NamespaceSeal, float]] = OrderedDict()

    async def check(self) -> None:
        """Errors: SettingsError when the master key is not the one that this database's keys were wrapped with."""
        async with acquired(self._pool) as connection:
            row = await connection.fetchrow(_ANY)
        if row is None:
            return
        try:
            self._master.unwrap(NamespaceId(str(row["namespace_id"])), row["wrapped"])
        except SealBroken as error:
            raise SettingsError(
                f"{self._master.setting} is not the key that this database's data is sealed with: {error}"
            ) from None

    async def of(self, namespace: NamespaceId) -> NamespaceSeal:
        """The namespace's key, made if it has none. Errors: DataErased, Unavailable."""
        kept = self._kept.get(namespace)
        if kept is not None and kept[1] > self._clock():
            self._kept.move_to_end(namespace)
            return kept[0]
        found = (await self.known([namespace])).get(namespace)
        if found is not None:
            return found
        raise DataErased(namespace)

    async def known(self, namespaces: Iterable[NamespaceId]) -> Mapping[NamespaceId, NamespaceSeal]:
        """The keys of these namespaces, made where there was none; those that were destroyed are left out."""
        now = self._clock()
        wanted = set(namespaces)
        found = {
            namespace: kept[0]
            for namespace in wanted
            if (kept := self._kept.get(namespace)) is not None and kept[1] > now
        }
        missing = sorted(wanted - found.keys())
        if missing:
            for namespace, wrapped in (await self._load(missing)).items():
                if wrapped is None:
                    self._kept.pop(namespace, None)
                    continue
                found[namespace] = self._unwrap(namespace, wrapped)
                self._keep(namespace, found[namespace], now + KEPT_S)
        return found

    async def destroy(self, namespace: NamespaceId) -> int:
        """Make all that the namespace's key sealed unreadable for ever; how many of its runs were stopped by that.

        A backup holds the wrapped key as long as it is kept: see `rotate`.
        """
        async with acquired(self._pool) as connection:
            stopped: int = await connection.fetchval(_DESTROY, namespace)
        self._kept.pop(namespace, None)
        return stopped

    async def rotate(self) -> int:
        """Wrap every namespace key with the first master key; how many were wrapped with another one.

        Processes that hold both go on meanwhile. Afterwards the former key may be removed from the file, and
        destroyed: what was erased before then opens from no backup either.
        """
        after, count = _FIRST, 0
        while True:
            async with acquired(self._pool) as connection:
                rows = await connection.fetch(_PAGE, after, REWRAPPED_AT_ONCE)
                stale = [
                    (NamespaceId(str(row["namespace_id"])), row["wrapped"])
                    for row in rows
                    if not self._master.is_current(row["wrapped"])
                ]
                if stale:
                    await connection.execute(
                        _REWRAP,
                        [namespace for namespace, _ in stale],
                        [wrapped for _, wrapped in stale],
                        [self._master.rewrap(namespace, wrapped) for namespace, wrapped in stale],
                    )
            count += len(stale)
            if len(rows) < REWRAPPED_AT_ONCE:
                return count
            after = NamespaceId(str(rows[-1]["namespace_id"]))

    async def _load(self, namespaces: list[NamespaceId]) -> dict[NamespaceId, bytes | None]:
        async with acquired(self._pool) as connection:
            found = _by_namespace(await connection.fetch(_READ, namespaces))
            new = [namespace for namespace in namespaces if namespace not in found]
            if new:
                # Another process may make them at the same moment: what the table has then is the key.
                fresh = [self._master.new_namespace_key(namespace) for namespace in new]
                await connection.execute(_MAKE, new, fresh)
                found |= _by_namespace(await connection.fetch(_READ, new))
        return found

    def _unwrap(self, namespace: NamespaceId, wrapped: bytes) -> NamespaceSeal:
        try:
            return self._master.unwrap(namespace, wrapped)
        except SealBroken as error:  # the deployment's fault: no run is to be given up for it
            raise Unavailable(f"the key of namespace {namespace} does not open: {error}") from error

    def _keep(self, namespace: NamespaceId, seal: NamespaceSeal, until: float) -> None:
        self._kept[namespace] = (seal, until)
        self._kept.move_to_end(namespace)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)

    def on_hint(self, message: Message) -> None:
        if message.get("k") == "erased":
            self._kept.pop(NamespaceId(str(message.get("namespace"))), None)


def _by_namespace(rows: Iterable[asyncpg.Record]) -> dict[NamespaceId, bytes | None]:
    return {NamespaceId(str(row["namespace_id"])): row["wrapped"] for row in rows}
