"""Parameters that calls share: pages of lists (`limit`, an opaque `after`, `{data, next}`), and the namespace."""

import base64
import re
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Query

from app.errors import invalid
from app.responses import time_ms
from app.schemas import NamespacedBody
from sandbox.journal.ids import TimeMs
from tenancy.ids import parse_id

LIMIT_MAX = 200
LIMIT_DEFAULT = 50
_TIME = re.compile(r"[0-9]{1,15}")

Parsed = TypeVar("Parsed")

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Objects of a page.")]
After = Annotated[str | None, Query(description="`next` of the page before; opaque.", max_length=200)]
NamespaceName = Annotated[
    str | None,
    Query(description="Which namespace; an API key must name one, a token has its own.", max_length=200),
]


def named(body: NamespacedBody | None, query: str | None) -> str | None:
    """The namespace that the body or the query names. ApiError when they name different ones."""
    inside = None if body is None else body.namespace
    if inside is not None and query not in {None, inside}:
        raise invalid("namespace", "invalid_value", "The body and the query name different namespaces.")
    return query if inside is None else inside


def encode_cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(after: str | None) -> str | None:
    """Return the id that the page begins after. ApiError when it is none that we gave out."""
    return _decoded(after, parse_id)


def decode_name_cursor(after: str | None, names: re.Pattern[str]) -> str | None:
    """Likewise, of what is listed by a name of that pattern."""
    return _decoded(after, lambda text: text if names.fullmatch(text) else None)


def encode_place(at: TimeMs, digest: str) -> str:
    """The place of something that is listed by time, and by digest within the same ms."""
    return encode_cursor(f"{at} {digest}")


def decode_place(after: str | None) -> tuple[TimeMs, str] | None:
    """ApiError when it is none that we gave out."""
    return _decoded(after, _place)


def _place(text: str) -> tuple[TimeMs, str] | None:
    time, _, digest = text.partition(" ")
    return (TimeMs(int(time)), digest) if _TIME.fullmatch(time) else None


def _decoded(after: str | None, parse: Callable[[str], Parsed | None]) -> Parsed | None:
    if after is None:
        return None
    try:
        text = base64.b64decode(after + "=" * (-len(after) % 4), altchars=b"-_", validate=True).decode()
    except ValueError:  # no base64, or no UTF-8
        text = ""
    found = parse(text)
    if found is None:
        raise invalid("after", "invalid_value", "This is no `next` of a page.")
    return found


def time_parameter(name: str, text: str | None) -> TimeMs | None:
    """Read a time of the query. ApiError naming the parameter."""
    if text is None:
        return None
    try:
        return time_ms(text)
    except ValueError:
        message = "A time in ISO 8601 with its zone, such as 2026-01-31T12:00:00Z, or ms since 1970."
        raise invalid(name, "invalid_value", message) from None
