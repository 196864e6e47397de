"""Names of types in a generated module: stable, unique, and clear of what the module itself refers to."""

import re
from collections.abc import Iterable

_TAKEN = frozenset({"AbortSignal", "Array", "CallOptions", "Duration", "HttpAnswer", "HttpInit", "HttpRequest", "HttpTools",
                    "Object", "Promise", "Record"})  # fmt: skip
_PART_CHARS_MAX = 60
_WORDS = re.compile(r"[A-Za-z0-9]+")


def pascal(text: str) -> str:
    """`github.list_issues` -> `GithubListIssues`; what is no ASCII letter or digit separates words."""
    joined = "".join(word[0].upper() + word[1:] for word in _WORDS.findall(text))[:_PART_CHARS_MAX]
    return f"T{joined}" if not joined or joined[0].isdigit() else joined


class TypeNames:
    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used: set[str] = {*_TAKEN, *used}

    def fresh(self, wanted: str) -> str:
        """The name itself for whoever asks first, then with 2, 3, …"""
        name, number = wanted, 2
        while name in self._used:
            name, number = f"{wanted}{number}", number + 1
        self._used.add(name)
        return name
