"""What is still to happen in virtual time, in order: by time, then as recorded or as scheduled."""

import heapq
import itertools
from dataclasses import dataclass, field

from sandbox.journal.entries import Event
from sandbox.journal.ids import TimeMs


@dataclass(eq=False, slots=True)
class Occurrence:
    """`events` are appended together when its time comes: what was decided, then what the script hears of it."""

    time: TimeMs
    events: tuple[Event, ...]
    dropped: bool = field(default=False)


class Agenda:
    def __init__(self) -> None:
        self._heap: list[tuple[TimeMs, int, int, Occurrence]] = []
        self._numbers = itertools.count()

    def add(self, time: TimeMs, *events: Event, order: int | None = None) -> Occurrence:
        """`order`: the recorded place among things of the same time; those go first."""
        occurrence = Occurrence(time, events)
        rank = next(self._numbers)
        key = (time, 0, order) if order is not None else (time, 1, rank)
        heapq.heappush(self._heap, (key[0], key[1] * 2**62 + key[2], rank, occurrence))
        return occurrence

    def next(self) -> Occurrence | None:
        """Take the earliest that was not dropped."""
        while self._heap:
            occurrence = heapq.heappop(self._heap)[3]
            if not occurrence.dropped:
                return occurrence
        return None

    @property
    def next_time(self) -> TimeMs | None:
        while self._heap and self._heap[0][3].dropped:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
