"""What stops one isolate that holds too much memory, on V8's heap or outside it.

Both are limits that no script can catch: an exception for lack of memory would come at a moment that differs
between two executions. Buffers (ArrayBuffer, typed arrays) are outside the heap, where V8 limits nothing; but
it collects garbage whenever they have grown, and afterwards knows exactly what is still held.
"""

import ctypes
import re
from collections.abc import Callable
from typing import Any

from sandbox.isolate.symbols import GC_CALLBACK, HEAP_CALLBACK, OOM_CALLBACK, V8

HEAP_GRACE_BYTES = 1 << 30
"""What V8 may allocate beyond its limit while the termination takes effect; less kills the process."""
STORM_HEAP_BYTES = 1 << 30
"""For an endless chain of promises, which is to run into its CPU limit."""

_FULL_COLLECTION = 4
_HEAP_USED = re.compile(rb'"used_heap_size":\s*(\d+)')


class MemoryGuard:
    """To be kept alive as long as its isolate: V8 keeps only the addresses of the callbacks.

    heap_bytes: for objects, and as much again for the contents of buffers.
    """

    def __init__(self, v8: V8, *, heap_bytes: int, on_fatal: Callable[[], None] | None) -> None:
        self.hit = False
        self._v8 = v8
        self._heap_bytes = heap_bytes
        self._on_fatal = on_fatal
        self._seen = 0
        self._storm = False
        self._heap_callback = HEAP_CALLBACK(self._near_heap_limit)
        self._collected_callback = GC_CALLBACK(self._collected)
        self._oom_callback = OOM_CALLBACK(self._out_of_memory)
        self._isolate: Any = None

    def attach(self, isolate: Any) -> None:
        """On the isolate's own thread."""
        self._isolate = isolate
        self._v8.add_heap_callback(isolate, self._heap_callback, None)
        self._v8.add_gc_epilogue(isolate, self._collected_callback, None, _FULL_COLLECTION)
        self._v8.set_oom_callback(isolate, self._oom_callback)

    def weather_storm(self, context: Any) -> None:
        """Let an endless chain of promises run into its CPU limit, which is what is wrong with it.

        Each promise of the chain waits for the next, so it would fill the heap a little earlier.
        """
        if not self._storm:
            self._storm = True
            self._v8.dll.mr_set_hard_memory_limit(context, STORM_HEAP_BYTES)

    def used(self, context: Any) -> int:
        """Bytes in use when the limit was hit, for the report."""
        raw = self._v8.dll.mr_heap_stats(context)
        content = raw.contents
        found = (
            _HEAP_USED.search(ctypes.string_at(content.value.value_ptr, content.len)) if content.len else None
        )
        self._v8.dll.mr_free_value(context, raw)
        return max(int(found[1]) if found else 0, self._seen, self._heap_bytes + 1)

    # -- All on the isolate's thread, inside V8

    def _near_heap_limit(self, _data: int, current: int, _initial: int) -> int:
        if self._storm and current < STORM_HEAP_BYTES:
            return current + STORM_HEAP_BYTES // 4
        self._stop(current)
        return current + HEAP_GRACE_BYTES

    def _collected(self, _isolate: int, _kind: int, _flags: int, _data: int) -> None:
        outside = self._v8.external_memory(self._isolate, 0)
        if outside > self._heap_bytes:
            self._stop(outside)

    def weigh(self) -> None:
        """The prelude asks each time that many bytes of buffers were made, collected or not."""
        if self._v8.external_memory(self._isolate, 0) > self._heap_bytes:
            self._v8.collect_garbage(self._isolate)
            self._collected(0, 0, 0, 0)

    def exhaust(self) -> None:
        """The prelude refuses what could never fit: no exception, for the same reason."""
        self._stop(self._v8.external_memory(self._isolate, 0))

    def _stop(self, seen: int) -> None:
        self.hit = True
        self._seen = max(self._seen, seen)
        self._v8.terminate(self._isolate)

    def _out_of_memory(self, _location: bytes, _details: int) -> None:
        if self._on_fatal is not None:
            self._on_fatal()
