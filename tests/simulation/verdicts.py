"""The books that a simulation keeps beside the store's, and what is raised when the two do not agree."""

from collections import Counter
from dataclasses import dataclass, field

from sandbox.journal.ids import NamespaceId, RunId, Sha256, TimeMs

SEEN_TO_MS = 20_000


class Broken(AssertionError):
    """An invariant does not hold."""


def require(holds: object, what: str) -> None:
    if not holds:
        raise Broken(what)


@dataclass
class Books:
    scripts: dict[RunId, str]
    """Of each run."""
    effects: Counter[tuple[RunId, int]] = field(default_factory=Counter)
    """How often each call was executed by its tool."""
    by_key: Counter[str] = field(default_factory=Counter)
    """The same by idempotency key, which the runs of a line may share."""
    signals: dict[RunId, set[str]] = field(default_factory=dict)
    """Ids that were acknowledged."""
    values: dict[tuple[NamespaceId, Sha256], bytes] = field(default_factory=dict)
    """What is in the object store."""
    peaces: list[tuple[TimeMs, TimeMs]] = field(default_factory=list)
    """From when to when nothing went wrong."""

    def seen_to_by(self, happened: TimeMs) -> TimeMs:
        """By when somebody must have seen to it: in peace soon, else soon after the peace begins."""
        begins = next((begin for begin, end in self.peaces if end > happened), happened)
        return TimeMs(max(begins, happened) + SEEN_TO_MS)
