"""The digest of a journal: pure, and the same for whoever computes it from the public entries.

An entry's digest is the SHA-256 of its canonical JSON in which every value, and whatever else a script or a
person wrote freely, stands as its own digest and size: taking such a text out of a journal later (a redaction)
changes no digest, as long as its digest and size stay.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from sandbox.journal.canonical import DEPTH_MAX, canonical_text, sha256_hex, value_of_text
from sandbox.journal.codec import wire_json
from sandbox.journal.ids import Json, RunId, Sha256
from sandbox.store.interface import StoredEntry

VERSION = "rewind/1"
VALUE_FIELDS = ("args", "data", "input", "output", "payload", "result")
FREE_FIELDS = ("cause", "detail", "frame", "labels", "message", "origin", "reason", "stack", "values")
"""By digest wherever they hold text; `cause` as an entry's own field is a seq and stays."""
DEPTH_ROOM = 8
"""Levels that an entry adds around a value."""


def entry_digest(entry: StoredEntry) -> Sha256:
    """Shapes: 64 hex digits; the same for an entry whose values are inline, in the object store, or redacted."""
    wire = wire_json(
        entry.seq, entry.type, entry.time, cause=entry.cause, fire_at=entry.fire_at, body=entry.body
    )
    return sha256_hex(canonical_text(reduced(json.loads(wire))))


def reduced(entry: dict[str, Any]) -> dict[str, Json]:
    """An entry of the public journal with its values and free texts as `{bytes, sha256}`."""
    shown = {
        name: _by_digest(value) if _is_free(name, value) else _value(value) if name in VALUE_FIELDS else value
        for name, value in entry.items()
    }
    if isinstance(shown.get("error"), dict):
        shown["error"] = reduced(shown["error"])
    return shown


class Root:
    """The root of a journal whose entries are added in order."""

    def __init__(self, run: RunId) -> None:
        self._hash = hashlib.sha256(f"{VERSION}\n{run}".encode())
        self.entries = 0

    def add(
        self, entries: Iterable[StoredEntry], digest: Callable[[StoredEntry], str] = entry_digest
    ) -> None:
        for entry in entries:
            self._hash.update(b"\n" + digest(entry).encode())
            self.entries += 1

    def hex(self) -> Sha256:
        return Sha256(self._hash.hexdigest())


def link(previous: Sha256 | None, run: RunId, root: Sha256) -> Sha256:
    """What the next seal of the namespace has as its `previous`."""
    return sha256_hex("\n".join((VERSION, previous or "", run, root)).encode())


def _is_free(name: str, value: Any) -> bool:
    return name in FREE_FIELDS and value is not None and not isinstance(value, int)


def _value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {"bytes": value["bytes"], "sha256": value["sha256"]}


def _by_digest(value: Any) -> dict[str, Json]:
    if isinstance(value, dict) and value.keys() == {"bytes", "redacted", "sha256"}:
        return {"bytes": value["bytes"], "sha256": value["sha256"]}
    known = value_of_text(canonical_text(value, depth_max=DEPTH_MAX + DEPTH_ROOM))
    return {"bytes": known.bytes, "sha256": known.sha256}
