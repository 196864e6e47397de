"""Names that somebody may have meant."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

NEAR_MAX = 3
LIKENESS_MIN = 0.66
CLOSE = 0.1
"""What is so much less likely than the likeliest is left out."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """At most NEAR_MAX known names, the likeliest first: `listIssues` for `list_issues`, `comment` for `create_comment`."""
    scored = [(_likeness(name, other), other) for other in dict.fromkeys(known)]
    scored = [item for item in scored if item[0] >= LIKENESS_MIN]
    scored.sort(key=lambda item: -item[0])
    return [other for likeness, other in scored[:NEAR_MAX] if likeness >= scored[0][0] - CLOSE]


def _likeness(name: str, other: str) -> float:
    one, two = _words(name), _words(other)
    if "".join(one) == "".join(two):
        return 1.0
    letters = SequenceMatcher(None, "".join(one), "".join(two)).ratio()
    if one and two and (set(one) <= set(two) or set(two) <= set(one)):
        return max(letters, 0.8)
    return letters


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]
