"""Taking a value out of an entry: its digest and size stay, so the root of the journal does too. Pure."""

import json
from dataclasses import dataclass, replace
from typing import Any

from sandbox.journal.canonical import DEPTH_MAX, canonical_text, value_of_text
from sandbox.journal.codec import TYPE_NAMES
from sandbox.journal.entries import EntryType
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Sha256
from sandbox.store.interface import StoredEntry
from sandbox.store.seal import DEPTH_ROOM, entry_digest

REDACTABLE: dict[EntryType, tuple[str, ...]] = {
    EntryType.RUN_STARTED: ("input",),
    EntryType.SCHEDULE_TOOL_CALL: ("args",),
    EntryType.TOOL_CALL_COMPLETED: ("result", "data"),
    EntryType.SIGNAL_RECEIVED: ("payload",),
    EntryType.COMPLETE_RUN: ("output",),
    EntryType.LOG: ("values",),
}
"""`data` is that of an error (`error.data` means the same); `values` are all that one line logged."""


class NothingToRedact(Exception):
    """The entry has no such field; the message says what it has."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """`entry` as it is to be stored. `changed` is False when the field had been redacted before."""

    entry: StoredEntry
    changed: bool
    sha256: Sha256
    bytes: int


def redacted(entry: StoredEntry, field: str) -> Redacted:
    """Errors: NothingToRedact; ImpossibleEntry if the entry's digest would change."""
    name = "data" if field == "error.data" else field
    fields = REDACTABLE.get(entry.type, ())
    kind = TYPE_NAMES[entry.type]
    if name not in fields:
        has = f"its fields with values are: {', '.join(fields)}" if fields else "it has no value"
        raise NothingToRedact(f"Entry {entry.seq} is a {kind}: {has}.")
    wire: dict[str, Any] = json.loads(entry.body)
    holder = wire.get("error") if name == "data" else wire
    found = None if holder is None else holder.get(name)
    if holder is None or found is None:
        raise NothingToRedact(f"Entry {entry.seq}, a {kind}, has no {field}.")
    known = _known(found) if name != "values" or isinstance(found, dict) else _digest_of(found)
    changed = not (isinstance(found, dict) and found.get("redacted") is True)
    holder[name] = known | {"redacted": True}
    fresh = replace(entry, body=canonical_text(wire, depth_max=DEPTH_MAX + DEPTH_ROOM))
    if entry_digest(fresh) != entry_digest(entry):
        raise ImpossibleEntry(f"redacting {field} of entry {entry.seq} would change its digest")
    return Redacted(fresh, changed, known["sha256"], known["bytes"])


def _known(value: dict[str, Any]) -> dict[str, Any]:
    return {"bytes": value["bytes"], "sha256": value["sha256"]}


def _digest_of(free: Any) -> dict[str, Any]:
    """As the digest of an entry has it."""
    value = value_of_text(canonical_text(free, depth_max=DEPTH_MAX + DEPTH_ROOM))
    return {"bytes": value.bytes, "sha256": value.sha256}
