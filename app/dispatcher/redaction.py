"""What a server says back of the secrets that it was shown is taken out before anything of it is recorded. Pure."""

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sandbox.journal.ids import Json

CHARS_MIN = 6
"""Shorter secrets are left alone: they would be found in everything."""


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
    """As servers write it: itself, inside JSON, in a URL, in base64 as of a header or body of its own."""
    data = text.encode()
    escaped = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    coded = {base64.b64encode(data).decode().rstrip("="), base64.urlsafe_b64encode(data).decode().rstrip("=")}
    return {text, quote(text, safe=""), quote(text), *escaped, *coded}
