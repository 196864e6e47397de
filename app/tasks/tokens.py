"""What a task's token stands for. It is a name, not a credential: whoever presents it must own the namespace."""

import base64
import binascii
import struct
import uuid

from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.postgres.tasks import TaskKey

_LAYOUT = struct.Struct(">16s16sIHI")


def encode_token(key: TaskKey) -> str:
    namespace, run, *numbers = key
    packed = _LAYOUT.pack(uuid.UUID(namespace).bytes, uuid.UUID(run).bytes, *numbers)
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def decode_token(token: str) -> TaskKey | None:
    """Return the lease that is named; None when we cannot have made this token: no lease is of attempt 0."""
    try:
        packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        namespace, run, call, attempt, releases = _LAYOUT.unpack(packed)
    except (binascii.Error, ValueError, struct.error):
        return None
    if call >= 2**31 or not 0 < attempt < 2**15 or releases >= 2**31:
        return None
    return (
        NamespaceId(str(uuid.UUID(bytes=namespace))),
        RunId(str(uuid.UUID(bytes=run))),
        call,
        attempt,
        releases,
    )
