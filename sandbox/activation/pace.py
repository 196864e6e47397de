"""What limits the calls of a tool: how many at once, how many in a while, how long one waits to begin. Pure.

A call's pace goes with its draft as JSON `{slot, slots?, rate?, rate_limit?, per_ms?, queue_ms?}`: calls with one
`slot` share `slots` places, calls with one `rate` begin at most `rate_limit` times in any `per_ms`. The store counts,
over all that claim. A key's value is there as a digest alone: the row is not sealed, arguments are.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sandbox.journal.canonical import canonical_text, parse_json
from sandbox.journal.ids import Json

HOST = "host"
"""A key of `http`: the host of the URL."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`scope`: what the limits are for, a tool or all tools of a server."""

    scope: str
    slots: int | None = None
    key: str | None = None
    rate_limit: int | None = None
    per_ms: int | None = None
    queue_ms: int | None = None

    @classmethod
    def of_tool(cls, tool: Mapping[str, Any]) -> "Pace | None":
        """That of a pinned tool; None for one without limits."""
        pinned = tool.get("pace")
        return None if pinned is None else cls(**{"scope": tool["name"], **pinned})

    def of_call(self, args: str) -> str:
        """For the call's draft; `args` is the canonical text of its arguments."""
        slot = self.scope
        if self.key is not None:
            value = parse_json(args)
            found = value.get(self.key) if isinstance(value, dict) else None
            if self.key == HOST and found is None and isinstance(value, dict):
                found = _host(value.get("url"))
            slot += "#" + hashlib.sha256(canonical_text(found)).hexdigest()[:32]
        said: dict[str, Json] = {"slot": slot, "slots": self.slots, "queue_ms": self.queue_ms}
        if self.rate_limit is not None:
            said |= {"rate": self.scope, "rate_limit": self.rate_limit, "per_ms": self.per_ms}
        return json.dumps({name: value for name, value in said.items() if value is not None})


def _host(url: Json) -> Json:
    try:
        return urlsplit(url).hostname if isinstance(url, str) else None
    except ValueError:
        return None
