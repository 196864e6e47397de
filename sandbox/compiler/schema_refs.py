"""Where a `$ref` leads inside its schema. Nothing is ever fetched: what is not in the schema is not there."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urljoin

SCANNED_MAX = 100_000
"""Subschemas that are searched for `$id`, `$anchor` and `$dynamicAnchor`."""


class UnresolvedRef(ValueError):
    """The reference leads nowhere; the message says why."""


class References:
    """The places of one schema that references can name."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._named: dict[str, Any] | None = None

    def resolve(self, reference: str) -> tuple[str, Any]:
        """A name that is equal for equal targets, and the schema there.

        Errors: UnresolvedRef.
        """
        base, _, fragment = reference.partition("#")
        pointer = unquote(fragment)
        start = self._root
        if base:
            base = self._whole(base)
            if base not in self._names():
                raise UnresolvedRef(f"{reference[:200]!r} is not in the schema, and nothing is fetched")
            start = self._names()[base]
        if pointer and not pointer.startswith("/"):
            if f"#{pointer}" not in self._names():
                raise UnresolvedRef(f"the schema has no anchor {pointer[:200]!r}")
            return f"#{pointer}", self._names()[f"#{pointer}"]
        return f"{base}#{pointer}", _walk(start, pointer, reference)

    def _whole(self, name: str) -> str:
        """An `$id`, or what refers to one, as it is in the schema's own base."""
        own = self._root.get("$id") if isinstance(self._root, dict) else None
        try:
            return urljoin(own, name) if isinstance(own, str) else name
        except ValueError:
            return name

    def _names(self) -> dict[str, Any]:
        if self._named is None:
            self._named = {}
            for number, schema in enumerate(subschemas(self._root)):
                if number >= SCANNED_MAX:
                    break
                for word, mark in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                    name = schema.get(word)
                    if isinstance(name, str):
                        name = name.removesuffix("#")
                        self._named.setdefault(mark + name if mark else self._whole(name), schema)
        return self._named


def subschemas(root: Any) -> Iterator[dict[str, Any]]:
    """All objects of a schema, whatever they mean, the root first."""
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _walk(start: Any, pointer: str, reference: str) -> Any:
    found = start
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        elif isinstance(found, dict) and name in found:
            found = found[name]
        else:
            raise UnresolvedRef(f"{reference[:200]!r} leads nowhere")
    if not isinstance(found, dict | bool):
        raise UnresolvedRef(f"{reference[:200]!r} leads to no schema")
    return found
