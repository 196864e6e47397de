"""Answers as JSON bytes. Texts of values are spliced in as they are stored, never parsed."""

import datetime as dt
from typing import Any

import orjson
from starlette.responses import Response

from sandbox.journal.ids import TimeMs

_BEGINNING = dt.datetime.fromtimestamp(0, dt.UTC)
TIME_MS_MAX = 253_402_300_799_999
"""The last ms of the year 9999: later times have no ISO 8601 text."""


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type="application/json", headers=headers)


def spliced(text: bytes) -> orjson.Fragment:
    """A JSON text to be put into an answer without parsing it."""
    return orjson.Fragment(text)


def iso(at: TimeMs | int | None) -> str | None:
    """ISO 8601 in UTC with ms."""
    if at is None:
        return None
    moment = dt.datetime.fromtimestamp(at // 1000, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 1000:03d}Z"


def time_ms(text: str) -> TimeMs:
    """Read a time of a request: ISO 8601 with a zone, or ms since 1970; to the year 9999. ValueError otherwise."""
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        at = int(text)
    else:
        moment = dt.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("A time needs its zone, such as Z.")
        at = (moment - _BEGINNING) // dt.timedelta(milliseconds=1)
    if not 0 <= at <= TIME_MS_MAX:
        raise ValueError("A time is in the years 1970 to 9999.")
    return TimeMs(at)
