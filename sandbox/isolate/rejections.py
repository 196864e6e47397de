"""Promises that were rejected and have no handler yet, with their reasons, in order, where the prelude finds them."""

import ctypes
from typing import Any

from sandbox.isolate.symbols import V8, RejectMessage

_REJECTED, _HANDLED = 0, 1


class Rejections:
    """Runs no JavaScript: a rejection at the edge of a stack overflow is seen as well, and a script cannot interfere.

    Keyed by identity hash (20 bits, so several candidates), told apart by address.
    Shapes: in `holder`, index n is a promise and n + 1 its reason, n even and rising.
    """

    def __init__(self, v8: V8, holder: Any) -> None:
        self._v8 = v8
        self._holder = holder
        self._indexes: dict[int, list[int]] = {}
        self._next = 0

    def note(self, message: RejectMessage, context: Any) -> None:
        v8 = self._v8
        hash_ = v8.identity_hash(message.promise)
        if message.event == _REJECTED:
            index = self._next
            self._next += 2
            self._indexes.setdefault(hash_, []).append(index)
            v8.put_index(self._holder, context, index, message.promise)
            v8.put_index(self._holder, context, index + 1, message.value)
        elif message.event == _HANDLED:
            self._handled(context, hash_, message.promise)

    def _handled(self, context: Any, hash_: int, promise: int) -> None:
        address = ctypes.c_uint64.from_address(promise).value
        for index in self._indexes.get(hash_, ()):
            kept = self._v8.get_index(self._holder, context, index)
            if ctypes.c_uint64.from_address(kept).value == address:
                self._v8.delete_index(self._holder, context, index)
                self._v8.delete_index(self._holder, context, index + 1)
                self._indexes[hash_].remove(index)
                if not self._indexes[hash_]:
                    del self._indexes[hash_]
                if not self._indexes:
                    self._next = 0
                return
