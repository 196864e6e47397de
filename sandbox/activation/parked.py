"""Claims that wait at an api: a new call can be leased to one in the very append that records it.

That saves a commit and a round trip per step. The claim's row is the lease itself (`pending.claim_id`):
whatever is lost here, the claim finds its tasks when it looks, at the latest after a poll interval.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sandbox.store.hints import Message
from sandbox.store.interface import CommandAppend, RunFacts

CLAIMS_MAX = 10_000
FRESH_S = 2.0
"""An api names its parked claims again at least every second; one not named is gone."""


@dataclass(slots=True)
class ParkedClaim:
    id: str
    api: str
    namespace: str | None
    toolset: str | None
    tools: frozenset[str] | None
    slots: int
    seen_at: float


class ParkedClaims:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._claims: dict[str, OrderedDict[str, ParkedClaim]] = {}
        self._count = 0

    def on_park(self, message: Message) -> None:
        claims = self._claims.setdefault(message["organization"], OrderedDict())
        if message["claim"] not in claims:
            if self._count >= CLAIMS_MAX:
                return
            self._count += 1
        tools = message["tools"]
        claims[message["claim"]] = ParkedClaim(
            id=message["claim"],
            api=message["api"],
            namespace=message["namespace"],
            toolset=message["toolset"],
            tools=None if tools is None else frozenset(tools),
            slots=message["slots"],
            seen_at=self._clock(),
        )

    def on_unpark(self, message: Message) -> None:
        self._remove(message["organization"], message["claim"])

    def on_batch(self, batch: Sequence[CommandAppend]) -> None:
        """These appends are being committed: a claim that is leased calls here is answered with them and leaves.

        A later call must not be leased to it, its api would have to give it back.
        """
        for append in batch:
            for draft in append.commands:
                if draft.claim_id is not None and append.organization is not None:
                    self._remove(append.organization, draft.claim_id)

    def lease(self, facts: RunFacts, tool: str) -> ParkedClaim | None:
        """A claim that takes this call, if one is parked; the slot is used up."""
        fresh_since = self._clock() - FRESH_S
        for claim in list(self._claims.get(facts.organization, {}).values()):
            if claim.seen_at < fresh_since:
                self._remove(facts.organization, claim.id)
            elif (
                claim.namespace in {None, facts.namespace}
                and claim.toolset in {None, facts.toolset}
                and (claim.tools is None or tool in claim.tools)
            ):
                claim.slots -= 1
                if claim.slots <= 0:
                    self._remove(facts.organization, claim.id)
                return claim
        return None

    def _remove(self, organization: str, claim: str) -> None:
        claims = self._claims.get(organization, OrderedDict())
        if claims.pop(claim, None) is not None:
            self._count -= 1
        if not claims:
            self._claims.pop(organization, None)
