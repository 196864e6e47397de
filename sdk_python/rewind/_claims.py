"""The worker's claims: what they ask for, and the slots that they hold until they are answered."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rewind._outbox import ITEMS_MAX
from rewind._types import given


@dataclass(slots=True, eq=False)
class Claim:
    """One claim until it is answered; asked again under the same id when its answer got lost."""

    slots: int
    id: str


class Claims:
    """Those under way. `held` is the number of slots that they may fill."""

    def __init__(
        self,
        *,
        tools: Sequence[str],
        toolset: str | None,
        namespace: str | None,
        wait_s: float,
        linger_ms: int,
    ) -> None:
        shape: dict[str, Any] = {"tools": list(tools), **given(toolset=toolset, namespace=namespace)}
        self._waiting = _members({**shape, "wait": round(wait_s * 1000)})
        self._last = _members({**shape, "wait": 0})
        self._linger = b',"linger_ms":%d' % linger_ms if linger_ms else b""
        self.under_way: list[Claim] = []
        self.held = 0

    def open(self, slots: int) -> Claim:
        claim = Claim(min(slots, ITEMS_MAX), str(uuid.uuid4()))
        self.under_way.append(claim)
        self.held += claim.slots
        return claim

    def close(self, claim: Claim) -> None:
        self.under_way.remove(claim)
        self.held -= claim.slots

    def encode(self, claim: Claim, *, with_items: bool) -> bytes:
        """The claim's JSON; one that goes with outcomes may linger for the calls that they lead to."""
        linger = self._linger if with_items else b""
        return b'{"claim_id":"%b","max":%d,%b%b}' % (claim.id.encode(), claim.slots, self._waiting, linger)

    def encode_last(self, claim: Claim) -> bytes:
        """The same claim once more, not waiting: gives what is leased to it already, and one new call at most."""
        return b'{"claim_id":"%b","max":1,%b}' % (claim.id.encode(), self._last)


def _members(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value)[1:-1]
