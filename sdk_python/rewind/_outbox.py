"""Outcomes that the server has not acknowledged yet.

Invariant: an outcome leaves only when the server said ok, or with a code that it is settled or unknown; a
batch whose exchange failed comes back to the front.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import orjson

from rewind._types import Settled

Verb = Literal["complete", "fail", "defer", "release"]
ITEMS_MAX = 100
"""Items of one exchange, as the API allows."""
BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Results of one exchange together; a larger one travels alone."""
FINAL_CODES = frozenset({"task_settled", "unknown_token", "too_large"})
"""Verdicts after which nothing is left to report; for `too_large` the call has failed with that code."""


@dataclass(slots=True)
class Outcome:
    """One item to report. `member` is the item's JSON beside the token, such as `"result":{...}`; may be empty."""

    token: str
    verb: Verb
    member: bytes = b""
    refusals: int = 0
    """How often the server refused an exchange with it as a whole; from the first on it is sent by itself."""

    @property
    def alone(self) -> bool:
        return self.refusals > 0

    def item(self) -> bytes:
        token = orjson.dumps(self.token)
        return b'{"token":%b,%b}' % (token, self.member) if self.member else b'{"token":%b}' % token


def completed(token: str, result: bytes) -> Outcome:
    return Outcome(token, "complete", b'"result":' + result)


def failed(token: str, error: dict[str, object]) -> Outcome:
    return Outcome(token, "fail", b'"error":' + orjson.dumps(error))


def deferred(token: str, expires: int | str | None) -> Outcome:
    return Outcome(token, "defer", b"" if expires is None else b'"expires":' + orjson.dumps(expires))


class Outbox:
    def __init__(self) -> None:
        self._waiting: deque[Outcome] = deque()
        self._tokens: set[str] = set()

    def __len__(self) -> int:
        """Outcomes not acknowledged: waiting or on their way."""
        return len(self._tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._tokens

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(self._tokens)

    def put(self, outcome: Outcome) -> None:
        self._waiting.append(outcome)
        self._tokens.add(outcome.token)

    def take(self) -> list[Outcome]:
        """The next batch: outcomes of one verb in order of arrival, bounded in number and bytes."""
        if not self._waiting:
            return []
        first = self._waiting.popleft()
        batch, size = [first], len(first.member)
        while self._waiting and not first.alone and len(batch) < ITEMS_MAX:
            following = self._waiting[0]
            size += len(following.member)
            if following.verb != first.verb or following.alone or size > BATCH_BYTES_MAX:
                break
            batch.append(self._waiting.popleft())
        return batch

    def put_back(self, batch: Sequence[Outcome]) -> None:
        """Undo `take`: nothing is known about what the server did with the batch."""
        self._waiting.extendleft(reversed(batch))

    def settle(self, batch: Sequence[Outcome], verdicts: Sequence[Settled]) -> list[tuple[Outcome, Settled]]:
        """Forget what is settled, keep the rest; returns the items that weren't ok.

        Verdicts come in the order of the items; a missing one keeps its outcome.
        """
        refused: list[tuple[Outcome, Settled]] = []
        kept: list[Outcome] = []
        for position, outcome in enumerate(batch):
            verdict = verdicts[position] if position < len(verdicts) else None
            if verdict is not None and (verdict["ok"] or verdict.get("code") in FINAL_CODES):
                self._tokens.discard(outcome.token)
            else:
                kept.append(outcome)
            if verdict is not None and not verdict["ok"]:
                refused.append((outcome, verdict))
        self.put_back(kept)
        return refused

    def refuse(self, batch: Sequence[Outcome], status: int, detail: str) -> bool:
        """The server refused the whole exchange. Find the culprit, then report it as a failure of its call.

        True when the next exchange will be another one; false when nothing more can be changed.
        """
        changed = False
        for position, outcome in enumerate(batch):
            outcome.refusals += 1
            if outcome.refusals == 2 or (outcome.refusals == 3 and outcome.verb == "fail"):
                code = "too_large" if status == 413 else "invalid_result"
                text = detail if outcome.refusals == 2 else "the server refused this call's outcome"
                smaller = _smaller(outcome, text, code=code)
                smaller.refusals = outcome.refusals
                batch = [*batch[:position], smaller, *batch[position + 1 :]]
            changed = changed or outcome.refusals <= 3
        self.put_back(batch)
        return changed


def _smaller(outcome: Outcome, detail: str, *, code: str) -> Outcome:
    """The failure that is reported instead of an outcome which the server can't take."""
    return failed(outcome.token, {"message": detail[:1000], "code": code})
