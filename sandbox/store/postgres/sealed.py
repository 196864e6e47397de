"""Appends with what they store sealed: done before they are batched, so that a key that is gone refuses its own alone.

What stands in the clear is what SQL works with: types, times, numbers, names of tools and signals, labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox.journal.entries import EntryType
from sandbox.journal.ids import NamespaceId, RunId, Sha256
from sandbox.store.interface import CommandAppend, EventAppend, StartRun
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.rows import signal_number
from sandbox.store.postgres.values import big_value
from sandbox.store.sealing import FORK_PLACE, PROGRESS_PLACE, entry_place

_WITHDRAWN_PLACE = entry_place(EntryType.TOOL_CALL_COMPLETED)


@dataclass(frozen=True, slots=True)
class SealedEvent:
    event: EventAppend
    body: bytes
    n: int
    named: Sha256 | None
    """The big value that the entry names."""

    @property
    def key(self) -> tuple[NamespaceId, RunId]:
        return (self.event.namespace, self.event.run)


@dataclass(frozen=True, slots=True)
class SealedStart:
    start: StartRun
    body: bytes
    named: Sha256 | None
    fork_report: bytes | None

    @property
    def key(self) -> tuple[NamespaceId, RunId]:
        return (self.start.namespace, self.start.run)


@dataclass(frozen=True, slots=True)
class SealedCommands:
    """`bodies` and `withdrawn`: of each command."""

    append: CommandAppend
    bodies: Sequence[bytes]
    withdrawn: Sequence[bytes | None]
    progress: bytes | None
    named: Sequence[Sha256]

    @property
    def key(self) -> tuple[NamespaceId, RunId]:
        return (self.append.namespace, self.append.run)


async def seal_event(keys: NamespaceKeys, event: EventAppend) -> SealedEvent:
    """Errors: DataErased, Unavailable."""
    run = (await keys.of(event.namespace)).of(event.run)
    number = event.n if event.signal_id is None else signal_number(event.signal_id)
    body = run.seal(event.body, entry_place(event.type))
    return SealedEvent(event, body, number, big_value(event.type, event.body))


async def seal_start(keys: NamespaceKeys, start: StartRun) -> SealedStart:
    """Errors: DataErased, Unavailable."""
    run = (await keys.of(start.namespace)).of(start.run)
    body = run.seal(start.body, entry_place(EntryType.RUN_STARTED))
    report = None if start.fork_report is None else run.seal(start.fork_report, FORK_PLACE)
    return SealedStart(start, body, big_value(EntryType.RUN_STARTED, start.body), report)


async def seal_commands(keys: NamespaceKeys, append: CommandAppend) -> SealedCommands:
    """Errors: DataErased, Unavailable."""
    commands = append.commands
    if not commands and append.progress is None:
        return SealedCommands(append, (), (), None, ())
    run = (await keys.of(append.namespace)).of(append.run)
    named = (big_value(draft.type, draft.body) for draft in commands)
    return SealedCommands(
        append,
        [run.seal(draft.body, entry_place(draft.type)) for draft in commands],
        [
            None if draft.withdrawn is None else run.seal(draft.withdrawn, _WITHDRAWN_PLACE)
            for draft in commands
        ],
        None if append.progress is None else run.seal(append.progress, PROGRESS_PLACE),
        [sha256 for sha256 in named if sha256 is not None],
    )
