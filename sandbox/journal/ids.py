"""The words of the product as types: every other module names things with these."""

from typing import NewType

RunId = NewType("RunId", str)
"""UUIDv7, lower case, with hyphens."""
NamespaceId = NewType("NamespaceId", str)
"""UUID of a namespace: the first column of every hot key and the first segment of every object key."""
OrganizationId = NewType("OrganizationId", str)
WorkerId = NewType("WorkerId", int)
"""Random positive 62-bit integer, fresh per worker process; also the key of its advisory lock."""

Seq = NewType("Seq", int)
"""Position of an entry in its run's journal, from 0 without gaps."""
TimeMs = NewType("TimeMs", int)
"""Milliseconds since 1970-01-01T00:00:00Z, by the database's clock."""
Epoch = NewType("Epoch", int)
Digest = NewType("Digest", str)
"""`sha256:` and 64 lower-case hex digits: scripts and toolsets."""
Sha256 = NewType("Sha256", str)
"""64 lower-case hex digits: values and seals."""

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
