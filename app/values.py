"""Values of requests on their way into a journal: canonical, of limited size and depth, big ones stored first."""

from typing import Protocol

from app.body import VALUE_BYTES_MAX
from app.errors import TooLarge, from_canonical
from app.large import beside_loop
from sandbox.journal.canonical import CanonicalError, canonical_text, value_of_text
from sandbox.journal.entries import Value
from sandbox.journal.errors import FieldError
from sandbox.journal.ids import Json, NamespaceId, Sha256


class Blobs(Protocol):
    """Texts of values above the inline limit, by namespace and digest."""

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None: ...
    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes: ...


class Values:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def take(self, namespace: NamespaceId, value: Json, path: str) -> Value:
        """Make the value object of what a request gave at `path`; a big text is stored before this returns.

        Errors: ApiError with the path of what cannot be a value; TooLarge.
        """
        return await self.store(namespace, await self.canonical(value, path))

    async def canonical(self, value: Json, path: str) -> bytes:
        """The text of what a request gave at `path`. Errors: those of `take`."""
        try:
            text = await beside_loop(canonical_text, value)
        except CanonicalError as error:
            raise from_canonical(error, within=path) from None
        if len(text) > VALUE_BYTES_MAX:
            message = (
                f"The value has {len(text):,} bytes as canonical JSON; the limit is {VALUE_BYTES_MAX:,}."
            )
            raise TooLarge(message, errors=[FieldError(path, "too_large", message)])
        return text

    async def store(self, namespace: NamespaceId, text: bytes) -> Value:
        """Make the value object of a canonical text; a big one is stored before this returns."""
        taken = value_of_text(text)
        if taken.text is None:
            await self._blobs.put(namespace, taken.sha256, text)
        return taken

    async def text(self, namespace: NamespaceId, value: Value) -> bytes:
        """The canonical text of a recorded value that was not redacted."""
        return value.text if value.text is not None else await self._blobs.get(namespace, value.sha256)
