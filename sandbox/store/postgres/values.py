"""Big values: which entries name them, which runs do, and what becomes of those that no run names.

An entry names at most one. A value is put into the object store before the append that names it, and its row in
`blobs` is touched before that.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

import asyncpg

from sandbox.journal.codec import value_in
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import PlatformFault
from sandbox.journal.ids import NamespaceId, RunId, Sha256
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys

logger = logging.getLogger(__name__)

Ref = tuple[NamespaceId, Sha256, RunId]
UNTOUCHED_MS = 24 * 3_600_000
COLLECTED_AT_ONCE = 50
VALUE_TYPES = frozenset(
    {
        EntryType.RUN_STARTED,
        EntryType.SCHEDULE_TOOL_CALL,
        EntryType.TOOL_CALL_COMPLETED,
        EntryType.SIGNAL_RECEIVED,
        EntryType.COMPLETE_RUN,
    }
)
"""Entries that may have a value object; elsewhere something that looks like one is what a script logged."""
_TOUCH = """insert into blobs (namespace_id, sha256, touched_at, bytes) values ($1, $2, now_ms(), $3)
  on conflict (namespace_id, sha256) do update set touched_at = excluded.touched_at"""
_REFER = """insert into value_refs (namespace_id, sha256, run_id)
  select * from unnest($1::uuid[], $2::bytea[], $3::uuid[]) on conflict do nothing"""
_CANDIDATES = """select b.namespace_id, b.sha256, exists (
    select from value_refs r where r.namespace_id = b.namespace_id and r.sha256 = b.sha256) as named
  from blobs b where b.touched_at < now_ms() - $1 order by b.touched_at limit $2 for update skip locked"""
_KEEP = """update blobs b set touched_at = now_ms() from unnest($1::uuid[], $2::bytea[]) k (ns, sha)
  where b.namespace_id = k.ns and b.sha256 = k.sha"""
_DROP = """delete from blobs b using unnest($1::uuid[], $2::bytea[]) k (ns, sha)
  where b.namespace_id = k.ns and b.sha256 = k.sha"""


class ObjectStore(Protocol):
    """Bytes by namespace and name; it knows nothing of what is in them."""

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None: ...
    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes: ...


def big_value(type_: EntryType, body: bytes) -> Sha256 | None:
    """The value that stands in the object store and that an entry with this body names."""
    found = value_in(body) if type_ in VALUE_TYPES else None
    return None if found is None or found.text is not None or found.redacted else found.sha256


async def refer(connection: asyncpg.Connection, refs: Iterable[Ref]) -> None:
    """Record that these runs name these values, in the transaction of the append that does."""
    rows = sorted(set(refs))
    if rows:
        await connection.execute(
            _REFER,
            [ns for ns, _, _ in rows],
            [bytes.fromhex(sha) for _, sha, _ in rows],
            [r for _, _, r in rows],
        )


class BlobChanged(PlatformFault):
    """A value that a journal names is not what its digest says."""

    code = "blob_changed"


class RecordedBlobs:
    """The object store, with a row for each object: nothing that was put within a day is ever collected.

    Objects are sealed under their namespace's key; the digest that names one is that of the plain value.
    """

    def __init__(self, pool: asyncpg.Pool, objects: ObjectStore, keys: NamespaceKeys) -> None:
        self._pool = pool
        self._objects = objects
        self._keys = keys

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None:
        """Errors: DataErased, Unavailable."""
        key = await self._keys.of(namespace)
        async with acquired(self._pool) as connection:
            await connection.execute(_TOUCH, namespace, bytes.fromhex(sha256), len(data))
        await self._objects.put(namespace, sha256, key.of(_subject(sha256)).seal(data, b""))

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        """The plain value, checked against its digest. Errors: BlobLost, BlobChanged, SealBroken, DataErased, Unavailable."""
        key = await self._keys.of(namespace)
        data = key.of(_subject(sha256)).open(await self._objects.get(namespace, sha256), b"")
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BlobChanged(f"the value stored as {sha256} of namespace {namespace} has another digest")
        return data


async def is_named(pool: asyncpg.Pool, namespace: NamespaceId, sha256: Sha256, run: RunId) -> bool:
    async with acquired(pool) as connection:
        found: bool = await connection.fetchval(
            "select exists (select from value_refs where namespace_id = $1 and sha256 = $2 and run_id = $3)",
            namespace,
            bytes.fromhex(sha256),
            run,
        )
    return found


async def collect(
    pool: asyncpg.Pool, delete: Callable[[NamespaceId, Sha256], Awaitable[None]]
) -> tuple[int, int]:
    """Look at some values that nobody has put for a day, and delete those that no run names: (looked at, deleted).

    Errors: Unavailable, and nothing is forgotten: what was deleted of the objects is deleted again next time.
    """
    async with acquired(pool) as connection, connection.transaction():
        rows = await connection.fetch(_CANDIDATES, UNTOUCHED_MS, COLLECTED_AT_ONCE)
        kept = [(row["namespace_id"], row["sha256"]) for row in rows if row["named"]]
        dropped = [(row["namespace_id"], row["sha256"]) for row in rows if not row["named"]]
        for namespace, sha256 in dropped:
            await delete(NamespaceId(str(namespace)), Sha256(sha256.hex()))
        for sql, keys in ((_KEEP, kept), (_DROP, dropped)):
            if keys:
                await connection.execute(sql, [ns for ns, _ in keys], [sha for _, sha in keys])
    return len(rows), len(dropped)


def _subject(sha256: Sha256) -> str:
    return f"value/{sha256}"
