"""Pages of lists: `limit`, an opaque `after`, and `{data, next}`."""

import base64
import binascii
from typing import Annotated

from fastapi import Query

from app.errors import invalid
from sandbox.journal.ids import TimeMs
from tenancy.ids import parse_id

LIMIT_MAX = 200
LIMIT_DEFAULT = 50

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Objects of a page.")]
After = Annotated[str | None, Query(description="`next` of the page before; opaque.", max_length=200)]
NamespaceName = Annotated[
    str | None,
    Query(description="Which namespace; an API key must name one, a token has its own.", max_length=200),
]


def encode_cursor(id_: str) -> str:
    return base64.urlsafe_b64encode(id_.encode()).rstrip(b"=").decode()


def decode_cursor(after: str | None) -> str | None:
    """Return the id that the page begins after. ApiError when it is none that we gave out."""
    if after is None:
        return None
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        text = ""
    found = parse_id(text)
    if found is None:
        raise invalid("after", "invalid_value", "This is no `next` of a page.")
    return found


def encode_place(at: TimeMs, digest: str) -> str:
    """The place of something that is listed by time, and by digest within the same ms."""
    return encode_cursor(f"{at} {digest}")


def decode_place(after: str | None) -> tuple[TimeMs, str] | None:
    """ApiError when it is none that we gave out."""
    if after is None:
        return None
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True).decode()
        time, _, digest = text.partition(" ")
        return TimeMs(int(time) if len(time) <= 15 else int("")), digest
    except (binascii.Error, ValueError):
        raise invalid("after", "invalid_value", "This is no `next` of a page.") from None
