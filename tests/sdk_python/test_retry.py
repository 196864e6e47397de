"""When a request is sent again, and after which pause."""

from datetime import UTC, datetime

import pytest
from rewind._errors import ConnectionFailed, RequestTimeout, api_error
from rewind._retry import DELAY_S_MAX, delay_s, may_retry, parse_retry_after


@pytest.mark.parametrize(
    ("error", "repeatable", "expected"),
    [
        (ConnectionFailed("refused", sent=False), False, True),
        (ConnectionFailed("broken"), False, False),
        (ConnectionFailed("broken"), True, True),
        (RequestTimeout("late"), True, True),
        (api_error(503, {"code": "unavailable"}), True, True),
        (api_error(503, {"code": "unavailable"}), False, False),
        (api_error(502, {}), True, True),
        (api_error(429, {"code": "rate_limited"}), True, True),
        (api_error(429, {"code": "quota_exceeded"}), True, False),
        (api_error(429, {"code": "history_full"}), True, False),
        (api_error(500, {}), True, False),
        (api_error(409, {"code": "run_ended"}), True, False),
        (ValueError("bug"), True, False),
    ],
)
def test_what_may_be_sent_again(error: Exception, *, repeatable: bool, expected: bool) -> None:
    assert may_retry(error, repeatable=repeatable) is expected


def test_a_pause_too_long_is_the_callers_business() -> None:
    error = api_error(503, {})
    error.retry_after_s = 61
    assert not may_retry(error, repeatable=True)


def test_pauses_grow_with_jitter_and_have_a_bound() -> None:
    assert [delay_s(n, None, draw=lambda: 1.0) for n in (1, 2, 3)] == [0.2, 0.4, 0.8]
    assert delay_s(1, None, draw=lambda: 0.0) == 0.1
    assert delay_s(10_000, None, draw=lambda: 1.0) == DELAY_S_MAX


def test_retry_after_is_a_minimum() -> None:
    error = api_error(429, {})
    error.retry_after_s = 7
    assert delay_s(1, error, draw=lambda: 0.0) >= 7


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("-1", 0),
        ("Sun, 29 Nov 2026 10:00:10 GMT", 10),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_headers(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, datetime(2026, 11, 29, 10, tzinfo=UTC)) == seconds
