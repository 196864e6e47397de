"""Which tools of a toolset fit a few words: BM25 over names, descriptions and arguments. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

RESULTS_MAX = 50
QUERY_CHARS_MAX = 1_000
NAME_WEIGHT = 3
"""A word of a tool's name counts as often as so many of its description."""
SATURATION, LENGTH_PENALTY = 1.2, 0.75
"""BM25's k1 and b, at their usual values."""
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_STOP = frozenset(["a", "an", "and", "are", "as", "be", "by", "for", "from", "i", "in", "is", "it", "of", "on",
                   "or", "that", "the", "this", "to", "with"])  # fmt: skip


ALIKE_WEIGHT = 0.4
"""What another word for a word of the query counts."""
_ALIKE = (
    "create add new make", "delete remove drop", "get fetch retrieve read show view", "list browse enumerate",
    "search find lookup query", "update edit change modify set", "send post", "pr pull request", "repo repository",
    "db database", "picture image photo", "remember memory knowledge store", "dir directory folder", "message msg",
    "chart graph plot diagram", "ticket issue bug", "mail email", "rename move", "run execute start",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Searchable:
    """Words of one tool with their weights, and how many they are."""

    name: str
    words: Counter[str]
    length: int
    called: frozenset[str]
    """The words of its name, without that of its group."""


class ToolIndex:
    """The tools of one version of a toolset, ready to be searched."""

    def __init__(self, tools: Sequence[dict[str, Any]]) -> None:
        self._tools = [_searchable(tool) for tool in tools]
        self._holding = Counter(word for tool in self._tools for word in tool.words)
        self._mean = sum(tool.length for tool in self._tools) / max(len(self._tools), 1) or 1.0

    def search(self, query: str, limit: int) -> list[str]:
        """Names of the best matches, the best first; equal ones in the toolset's order."""
        words = [word for word in dict.fromkeys(words_of(query)) if word in self._holding]
        alike = [word for word in _alike(words_of(query)) if word in self._holding]
        wanted, called = query.strip().lower(), frozenset(words_of(query))
        scored = [
            (
                self._score(tool, words)
                + ALIKE_WEIGHT * self._score(tool, alike)
                + 1_000 * (tool.name.lower() == wanted)
                + 100 * (tool.called == called),
                tool.name,
            )
            for tool in self._tools
        ]
        found = sorted((item for item in scored if item[0] > 0), key=lambda item: -item[0])
        return [name for _, name in found[: min(limit, RESULTS_MAX)]]

    def _score(self, tool: Searchable, words: Iterable[str]) -> float:
        score = 0.0
        for word in words:
            often = tool.words[word]
            if often:
                rarity = math.log(
                    1 + (len(self._tools) - self._holding[word] + 0.5) / (self._holding[word] + 0.5)
                )
                long = 1 - LENGTH_PENALTY + LENGTH_PENALTY * tool.length / self._mean
                score += rarity * often * (SATURATION + 1) / (often + SATURATION * long)
        return score


def words_of(text: str) -> list[str]:
    """Lower-case words without their usual English endings; `listIssues` and `list_issues` are two words."""
    found = (match.group().lower() for match in _WORDS.finditer(text))
    return [_stem(word) for word in found if word not in _STOP]


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "es", "ed", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _alike(words: list[str]) -> list[str]:
    """Other words for these, none of which is among them."""
    found = dict.fromkeys(other for word in words for other in _OTHERS.get(word, ()))
    return [word for word in found if word not in words]


_OTHERS = {word: words_of(group) for group in _ALIKE for word in words_of(group)}
"""By stem. A word of no group, or one that stands in a query beside its like, adds nothing."""


def _searchable(tool: dict[str, Any]) -> Searchable:
    words: Counter[str] = Counter()
    for word in {*words_of(tool["name"]), *words_of(tool["original"])}:
        words[word] += NAME_WEIGHT
    words.update(words_of(tool["description"]))
    schema = tool["input_schema"]
    properties = schema.get("properties") if isinstance(schema, dict) else None
    for name in properties if isinstance(properties, dict) else ():
        words.update(words_of(name))
    called = frozenset(words_of(tool["name"].rpartition(".")[2]))
    return Searchable(tool["name"], words, sum(words.values()), called)
