"""A page shared by a worker and one sandbox process: which event is running, since when, and a last word.

The parent reads it while the child is busy or dead; the child writes plain numbers, never pointers.
"""

import mmap
import os
import struct
import time
from pathlib import Path

_NUMBERS = struct.Struct("<QQQ")
PAGE_BYTES = 4096


class Vitals:
    def __init__(self, page: mmap.mmap) -> None:
        self._page = page

    @classmethod
    def create(cls) -> tuple["Vitals", int]:
        """For the parent: the page and the descriptor to hand to the child; close it after the start."""
        descriptor = os.memfd_create("rewind-vitals")
        os.ftruncate(descriptor, PAGE_BYTES)
        return cls(mmap.mmap(descriptor, PAGE_BYTES)), descriptor

    @classmethod
    def open(cls, descriptor: int) -> "Vitals":
        vitals = cls(mmap.mmap(descriptor, PAGE_BYTES))
        os.close(descriptor)
        return vitals

    def begin(self, events_done: int) -> None:
        """The next event starts now: its number in this delivery, and the process's CPU clock."""
        _NUMBERS.pack_into(
            self._page, 0, events_done, time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), 0
        )

    def note_out_of_memory(self) -> None:
        self._page[16] = 1

    @property
    def events_done(self) -> int:
        return int(_NUMBERS.unpack_from(self._page)[0])

    @property
    def event_began_ns(self) -> int:
        return int(_NUMBERS.unpack_from(self._page)[1])

    @property
    def out_of_memory(self) -> bool:
        return self._page[16] == 1


def process_cpu_ns(pid: int) -> int:
    """CPU clock of another process. Errors: OSError when it is gone."""
    return time.clock_gettime_ns((~pid << 3) | 2)


def process_rss_bytes(pid: int) -> int:
    """Errors: OSError when it is gone."""
    return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * mmap.PAGESIZE
