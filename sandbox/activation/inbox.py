"""Which events of a run come next, whatever order their hints arrive in.

A run's seqs are shared by its own commands, known from the answers to its appends, and by events that
others appended, known from hints or read from the journal. The inbox walks over both without gaps.
"""

from collections.abc import Iterable

from sandbox.activation.values import CHUNK_BYTES, wire_bytes
from sandbox.journal.ids import Seq
from sandbox.store.interface import StoredEntry


class Inbox:
    def __init__(self, position: Seq) -> None:
        self.position = position
        """The next seq to look at: everything below it was delivered or is the run's own command."""
        self.length = position
        """The journal is known to be at least this long."""
        self._events: dict[int, StoredEntry] = {}
        self._own: list[tuple[int, int]] = []

    def offer(self, event: StoredEntry) -> None:
        """An event from a hint or a read; repeats and old ones are dropped."""
        if event.seq >= self.position:
            self._events[event.seq] = event
            self.length = max(self.length, Seq(event.seq + 1))

    def offer_all(self, entries: Iterable[StoredEntry]) -> None:
        """Entries read from the journal, own commands included."""
        for entry in entries:
            if entry.cause is not None:
                self.own(entry.seq, 1)
            else:
                self.offer(entry)

    def own(self, first: Seq, count: int) -> None:
        """`count` commands of this run's owner stand from `first` on."""
        if count and first + count > self.position:
            self._own.append((first, first + count))
            self.length = max(self.length, Seq(first + count))

    def known_length(self, length: Seq) -> None:
        self.length = max(self.length, length)

    def nothing_there(self, believed: Seq) -> None:
        """A read found nothing at `position`: the length that was `believed` is wrong, if no more was heard since."""
        if self.length == believed and self.position not in self._events:
            self.length = self.position

    def take(self, limit: int, *, bytes_max: int = CHUNK_BYTES) -> list[StoredEntry]:
        """The next events in order, up to the first gap; no more than fit, but at least one."""
        taken: list[StoredEntry] = []
        size = 0
        while len(taken) < limit:
            if (event := self._events.get(self.position)) is not None:
                size += wire_bytes(event)
                if taken and size > bytes_max:
                    break
                taken.append(self._events.pop(self.position))
                self.position = Seq(self.position + 1)
            elif not self._skip_own():
                break
        return taken

    def _skip_own(self) -> bool:
        for index, (first, end) in enumerate(self._own):
            if first <= self.position < end:
                self.position = Seq(end)
                del self._own[index]
                return True
        return False

    @property
    def gap(self) -> bool:
        """Something before `length` is not known here: read the journal from `position` on."""
        return (
            self.position < self.length
            and self.position not in self._events
            and not any(first <= self.position < end for first, end in self._own)
        )

    @property
    def waiting(self) -> bool:
        return self.position < self.length
