"""Cursors and times of lists: what we gave out is read, everything else is refused by the parameter's name."""

import base64
import re

import pytest

from app.paging import (
    decode_cursor,
    decode_name_cursor,
    decode_place,
    encode_cursor,
    encode_place,
    time_parameter,
)
from app.responses import iso
from sandbox.journal.errors import ApiError
from sandbox.journal.ids import TimeMs

ID = "01a22902-62f1-779f-92c3-24a30a0fc6b8"
NAMES = re.compile(r"[a-z]+")


def coded(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def test_what_was_given_out_is_read() -> None:
    assert decode_cursor(encode_cursor(ID)) == ID
    assert decode_name_cursor(encode_cursor("alice"), NAMES) == "alice"
    assert decode_place(encode_place(TimeMs(1_700_000_000_000), "ab")) == (1_700_000_000_000, "ab")
    assert decode_cursor(None) is decode_name_cursor(None, NAMES) is decode_place(None) is None


@pytest.mark.parametrize(
    "after", ["", "%", "é", "A", coded(b"\xff\xfe"), coded(b"1 2 3"), coded(b"9" * 40 + b" a"), "a b"]
)
def test_anything_else_is_refused(after: str) -> None:
    for read in (decode_cursor, lambda text: decode_name_cursor(text, NAMES)):
        with pytest.raises(ApiError) as refused:
            read(after)
        assert refused.value.errors[0].path == "after"


@pytest.mark.parametrize("text", ["", " 12 a", "-1 a", "1_0 a", "9" * 16 + " a"])
def test_a_place_begins_with_a_time(text: str) -> None:
    with pytest.raises(ApiError):
        decode_place(encode_cursor(text))


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_time_that_is_none_names_its_parameter(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        time_parameter("from", text)
    assert refused.value.errors[0].path == "from"


def test_times_are_iso_or_ms() -> None:
    assert time_parameter("from", "1970-01-01T00:00:01Z") == time_parameter("from", "1000") == 1_000
    assert time_parameter("from", None) is None
    assert iso(time_parameter("from", "253402300799999")) == "9999-12-31T23:59:59.999Z"
