"""What a server says back of the secrets that it was shown is taken out before anything of it is recorded. Pure."""

import base64
import itertools
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from sandbox.journal.ids import Json

CHARS_MIN = 6
"""Shorter secrets are left alone: they would be found in everything."""
CUTS_MAX = 16
"""Places of a message at which somebody may have cut it in the middle of a secret."""
_CUT = re.compile("…|$")


class Redactor:
    """Knows the secrets of one call by their names; `[secret NAME]` stands where one was."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        found: dict[str, str] = {}
        for name, value in (secrets or {}).items():
            for text in {value, value.strip()}:
                if len(text) >= CHARS_MIN:
                    found |= dict.fromkeys(_spellings(text), f"[secret {name}]")
        # The longest first: one secret may be a part of another, or of its own spelling.
        self._marks = sorted(found.items(), key=lambda item: (-len(item[0]), item[0]))
        self._bytes = [spelling.encode() for spelling, _ in self._marks]

    def __repr__(self) -> str:
        return f"Redactor({len(self._marks)})"

    def also(self, secrets: Mapping[str, str]) -> "Redactor":
        """One that knows these as well."""
        both = Redactor(secrets)
        both._marks = sorted({*self._marks, *both._marks}, key=lambda item: (-len(item[0]), item[0]))
        both._bytes = [spelling.encode() for spelling, _ in both._marks]
        return both

    def hits(self, data: bytes) -> bool:
        """Whether a secret is in this text, which may be canonical JSON."""
        return any(spelling in data for spelling in self._bytes)

    def text(self, text: str) -> str:
        for spelling, mark in self._marks:
            text = text.replace(spelling, mark)
        return text

    def message(self, text: str) -> str:
        """Of a message, which may be an excerpt: the beginning of a secret that was cut off is taken out too."""
        text = self.text(text)
        if not self._marks:
            return text
        cuts = [found.start() for found in itertools.islice(_CUT.finditer(text), CUTS_MAX)]
        for cut in sorted({*cuts, len(text)}, reverse=True):
            text = self._without_beginning(text, cut)
        return text

    def _without_beginning(self, text: str, cut: int) -> str:
        """The text without a secret's first characters before `cut`; the longest of them counts."""
        longest, said = 0, ""
        for spelling, mark in self._marks:
            for length in range(min(len(spelling) - 1, cut), max(longest, CHARS_MIN - 1), -1):
                if text.startswith(spelling[:length], cut - length):
                    longest, said = length, mark
                    break
        return text[: cut - longest] + said + text[cut:] if longest else text

    def data(self, data: bytes) -> bytes:
        for (_, mark), spelling in zip(self._marks, self._bytes, strict=True):
            data = data.replace(spelling, mark.encode())
        return data

    def value(self, value: Any) -> Json:
        """The same value without secrets, in names too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(part) for part in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(part) for name, part in value.items()}
        plain: Json = value
        return plain


def _spellings(text: str) -> set[str]:
    """As servers write it: itself, as part of a host, inside JSON, in a URL, in hex, in base64 by itself or within more."""
    data = text.encode()
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    in_urls = {quote(text, safe=""), quote(text), quote_plus(text)}
    as_client = _in_base64(quote(text, safe="").encode())  # what OAuth makes of a client's secret
    return {
        text,
        text.lower(),
        data.hex(),
        data.hex().upper(),
        *in_urls,
        *escaped,
        *_in_base64(data),
        *as_client,
    }


def _in_base64(data: bytes) -> set[str]:
    """What of its base64 does not depend on what stands before and after it, in both alphabets."""
    found = set()
    for before in range(3):
        coded = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        whole = (before + len(data)) % 3 == 0
        # The first characters mix with the bytes before, the last one with those after.
        inner = coded[(0, 2, 3)[before] : None if whole else -1]
        alone = {coded} if before == 0 else set()
        found |= {part for part in {inner, *alone} if len(part) >= CHARS_MIN}
    return found | {part.replace("+", "-").replace("/", "_") for part in found}
