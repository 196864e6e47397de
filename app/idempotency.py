"""`Idempotency-Key`: read from the request, and the digest of the body that goes with it."""

import hashlib
from collections.abc import Iterable

from starlette.requests import Request

from app.errors import invalid
from app.large import beside_loop
from sandbox.journal.canonical import canonical_text
from sandbox.journal.ids import Json

KEY_CHARS_MAX = 255
REPLAYED = {"Idempotent-Replayed": "true"}
_DEPTH_MAX = 256
"""Bodies are checked elsewhere; here only their digest is taken."""


def idempotency_key(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if not keys:
        return None
    key = keys[0]
    if len(keys) > 1 or not 1 <= len(key) <= KEY_CHARS_MAX or not all(" " <= char <= "~" for char in key):
        raise invalid(
            "Idempotency-Key", "invalid_value", f"One key of 1 to {KEY_CHARS_MAX} printable ASCII characters."
        )
    return key


async def request_sha256(body: Json, *, without: Iterable[str] = ()) -> bytes:
    """Digest of the canonical body, less the fields that do not make another request of it."""
    left_out = set(without)
    counted = (
        {name: value for name, value in body.items() if name not in left_out}
        if isinstance(body, dict)
        else body
    )
    return hashlib.sha256(await beside_loop(canonical_text, counted, depth_max=_DEPTH_MAX)).digest()
