"""Secrets in what servers say back: every spelling of them, and what is left of one in an excerpt."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from app.dispatcher.redaction import CHARS_MIN, Redactor

SECRET = 'k-7f"3/+?é value~9'
DATA = SECRET.encode()


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        DATA.hex(),
        DATA.hex().upper(),
        base64.b64encode(DATA).decode(),
        base64.urlsafe_b64encode(DATA).decode().rstrip("="),
    ],
)
def test_a_secret_in_any_spelling_is_taken_out(said: str) -> None:
    redactor = Redactor({"k": SECRET})
    text = redactor.text(f"it was {said}!")
    assert text.count("[secret k]") == 1
    assert said.strip('"') not in text
    assert redactor.hits(f"it was {said}!".encode())
    assert redactor.data(said.encode()) == redactor.text(said).encode()


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "1", "12", "123"])
def test_a_secret_within_base64_is_taken_out(before: str, after: str) -> None:
    """As of `Basic` credentials: what is left says nothing but what stood beside it."""
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        coded = encode(before.encode() + DATA + after.encode()).decode()
        text = Redactor({"k": SECRET}).text(coded)
        assert "[secret k]" in text
        rest = text.replace("[secret k]", "").rstrip("=")
        assert len(rest) <= 2 + (4 * len(before + after)) // 3 + 2


@pytest.mark.parametrize("mark", ["", "…", "… and more"])
def test_the_beginning_of_a_secret_that_was_cut_off_is_taken_out(mark: str) -> None:
    redactor = Redactor({"k": SECRET, "long": SECRET + "-and-more"})
    for length in range(CHARS_MIN, len(SECRET)):
        text = redactor.message(f"refused: {SECRET[:length]}{mark}")
        assert text in {f"refused: [secret k]{mark}", f"refused: [secret long]{mark}"}
    assert redactor.message(f"refused: {SECRET[: CHARS_MIN - 1]}") == f"refused: {SECRET[: CHARS_MIN - 1]}"


def test_what_is_no_secret_stays() -> None:
    redactor = Redactor({"k": SECRET, "short": "abc"})
    for text in ("", "abc", "nothing to see", "… …"):
        assert redactor.message(text) == text
    assert Redactor().message("k-7f") == "k-7f"
    assert redactor.value({"a": [1, None, "b"]}) == {"a": [1, None, "b"]}
