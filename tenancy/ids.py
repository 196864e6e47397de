"""Ids of new objects: UUIDv7, so that they sort by the time of their making."""

import os
import uuid

from sandbox.journal.ids import TimeMs


def new_id(at: TimeMs) -> str:
    """Return a UUIDv7 of that time; the other 74 bits are random."""
    bits = int.from_bytes(os.urandom(10), "big")
    head = (int(at) & (1 << 48) - 1) << 80
    version = 0x7 << 76
    variant = 0x2 << 62
    return str(uuid.UUID(int=head | version | (bits >> 68) << 64 | variant | bits & (1 << 62) - 1))


def parse_id(text: str) -> str | None:
    """Return the id in lower case, or None when the text is no UUID in its usual form."""
    if len(text) != 36 or text[8] != "-" or text[13] != "-" or text[18] != "-" or text[23] != "-":
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return None
