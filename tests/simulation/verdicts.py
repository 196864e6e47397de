"""The books that a simulation keeps beside the store's, and what is raised when the two do not agree."""

from collections import Counter
from dataclasses import dataclass, field

from sandbox.journal.ids import RunId


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
