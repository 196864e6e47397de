"""What an activation needs of the world: the store, the object store, the sandbox. Doubles implement the same."""

from typing import Protocol

from sandbox.isolate.api import IsolateHandle, RunSetup
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import Digest, NamespaceId, RunId, Seq, Sha256, WorkerId
from sandbox.store.forks import ForkAppend
from sandbox.store.interface import (
    FROM_START,
    CommandAppend,
    CommandVerdict,
    EventAppend,
    EventVerdict,
    RunFacts,
    StoredEntry,
)


class OwnedRuns(Protocol):
    worker: WorkerId

    async def load_facts(self, namespace: NamespaceId, run: RunId) -> RunFacts | None: ...
    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None: ...
    async def read_entries(
        self, namespace: NamespaceId, run: RunId, *, after: Seq = FROM_START, limit: int = 500
    ) -> list[StoredEntry]: ...
    async def find_entry(
        self, namespace: NamespaceId, run: RunId, entry_type: EntryType, n: int | None = None
    ) -> StoredEntry | None: ...
    async def append_commands(self, append: CommandAppend) -> CommandVerdict: ...
    async def append_fork(self, append: ForkAppend) -> CommandVerdict: ...
    async def append_event(self, event: EventAppend) -> EventVerdict: ...
    async def unbegun_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, deferred: bool
    ) -> list[tuple[int, int]]: ...
    async def stop_calls(
        self, namespace: NamespaceId, run: RunId, *, below: int | None, only_children: bool = False
    ) -> None: ...
    async def count_calls(self, namespace: NamespaceId, run: RunId) -> int: ...


class Blobs(Protocol):
    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes: ...
    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None: ...


class Isolates(Protocol):
    async def open(self, setup: RunSetup) -> IsolateHandle: ...
