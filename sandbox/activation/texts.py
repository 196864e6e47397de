"""Texts of the values of one reenactment, in memory: nothing of it is stored."""

from sandbox.journal.canonical import value_of_text
from sandbox.journal.entries import Value
from sandbox.journal.ids import NamespaceId, Sha256


class Texts:
    """Implements ports.Blobs."""

    def __init__(self) -> None:
        self._texts: dict[Sha256, bytes] = {}

    def value(self, text: bytes) -> Value:
        """The value object of a canonical text."""
        value = value_of_text(text)
        if value.text is None:
            self._texts[value.sha256] = text
        return value

    def text(self, value: Value) -> bytes:
        return self._texts[value.sha256] if value.text is None else value.text

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        del namespace  # a scenario has one
        return self._texts[sha256]

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None:
        del namespace
        self._texts[sha256] = data
