"""A page shared by a worker and one sandbox process: which event is running, since when, and a last word.

The parent reads it while the child is busy or dead; the child writes plain numbers, never pointers.
"""

import ctypes
import mmap
import os
import struct
import time
from typing import Any

_NUMBERS = struct.Struct("<QQQ")
PAGE_BYTES = 4096
_MAP_FAILED = ctypes.c_void_p(-1).value


class Vitals:
    def __init__(self, page: "mmap.mmap | ctypes.Array[ctypes.c_char]") -> None:
        self._page: Any = page

    @classmethod
    def create(cls) -> tuple["Vitals", int]:
        """For the parent: the page and the descriptor to hand to the child; close it after the start."""
        descriptor = os.memfd_create("rewind-vitals")
        os.ftruncate(descriptor, PAGE_BYTES)
        return cls(mmap.mmap(descriptor, PAGE_BYTES)), descriptor

    @classmethod
    def open(cls, descriptor: int) -> "Vitals":
        """For the child. Maps without Python's mmap, which would keep a copy of the descriptor open."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
        address = libc.mmap(
            None, PAGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0
        )
        os.close(descriptor)
        if address in {None, _MAP_FAILED}:
            raise OSError(ctypes.get_errno(), "mmap")
        return cls((ctypes.c_char * PAGE_BYTES).from_address(address))

    def begin(self, events_done: int) -> None:
        """The next event starts now: its number in this delivery, and the process's CPU clock."""
        _NUMBERS.pack_into(
            self._page, 0, events_done, time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID), 0
        )

    def note_out_of_memory(self) -> None:
        self._page[16:17] = b"\x01"

    @property
    def events_done(self) -> int:
        return int(_NUMBERS.unpack_from(self._page)[0])

    @property
    def event_began_ns(self) -> int:
        return int(_NUMBERS.unpack_from(self._page)[1])

    @property
    def out_of_memory(self) -> bool:
        return bytes(self._page[16:17]) == b"\x01"


def process_cpu_ns(pid: int) -> int:
    """CPU clock of another process. Errors: OSError when it is gone."""
    return time.clock_gettime_ns((~pid << 3) | 2)


class ResidentMemory:
    """Of another process. Keeps its file open: read before every delivery."""

    def __init__(self, pid: int) -> None:
        self._descriptor = os.open(f"/proc/{pid}/statm", os.O_RDONLY | os.O_CLOEXEC)

    def read_bytes(self) -> int:
        """0 when the process is gone."""
        try:
            return int(os.pread(self._descriptor, 128, 0).split()[1]) * mmap.PAGESIZE
        except (OSError, IndexError):
            return 0

    def close(self) -> None:
        os.close(self._descriptor)
