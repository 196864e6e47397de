"""Values on their way between the journal, the object store and the sandbox.

In an entry a big value is only its digest and size; the script always gets it whole.
"""

from collections.abc import Sequence

from sandbox.activation.drafts import Emission
from sandbox.activation.ports import Blobs
from sandbox.journal.canonical import INLINE_MAX_BYTES
from sandbox.journal.codec import value_in, wire_json
from sandbox.journal.entries import EntryType
from sandbox.journal.ids import NamespaceId
from sandbox.store.interface import StoredEntry

VALUE_EVENTS = frozenset({EntryType.RUN_STARTED, EntryType.TOOL_CALL_COMPLETED, EntryType.SIGNAL_RECEIVED})
CHUNK_BYTES = 1024 * 1024
"""Events cross into the sandbox in chunks of about this size; one bigger event goes alone."""


def wire_bytes(event: StoredEntry) -> int:
    """About the size of the event on its way into the sandbox, where its value is whole."""
    value = value_in(event.body) if event.type in VALUE_EVENTS else None
    return len(event.body) + (0 if value is None or value.text is not None else value.bytes)


async def deliverable(event: StoredEntry, namespace: NamespaceId, blobs: Blobs) -> bytes:
    """The wire JSON of an event with its value inline.

    Errors: Unavailable when the object store does not answer.
    """
    wire = wire_json(event.seq, event.type, event.time, cause=None, fire_at=None, body=event.body)
    if event.type not in VALUE_EVENTS:
        return wire
    value = value_in(event.body)
    if value is None or value.text is not None or value.bytes <= INLINE_MAX_BYTES:
        return wire
    text = await blobs.get(namespace, value.sha256)
    head = b'"sha256":"%b"' % value.sha256.encode()
    return wire.replace(head, head + b',"value":' + text, 1)


async def store_big_values(emissions: Sequence[Emission], namespace: NamespaceId, blobs: Blobs) -> None:
    """Put what the entries will only name; done before they are appended, so no entry names what is not there."""
    for emission in emissions:
        if emission.big_value is not None:
            value, text = emission.big_value
            await blobs.put(namespace, value.sha256, text)
