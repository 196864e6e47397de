"""Durations of requests."""

import pytest

from app.durations import duration_ms
from sandbox.journal.durations import duration_text


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (0, 0), (1.2, 2), (30_000, 30_000), ("30000", 30_000), ("250ms", 250), ("30s", 30_000), ("5m", 300_000),
        ("2h", 7_200_000), ("10d", 864_000_000), ("1w", 604_800_000), ("1h 30m", 5_400_000), ("1.5s", 1_500),
        ("PT90S", 90_000), ("P1DT2H", 93_600_000), ("P1W", 604_800_000), ("PT0.5S", 500), (" 1s ", 1_000),
    ],
)  # fmt: skip
def test_durations(given: float | str, ms: int) -> None:
    assert duration_ms(given) == ms


@pytest.mark.parametrize(
    "given",
    ["", "soon", "-1s", "1e3", "P", "PT", "P1Y", "1 s m", "9" * 400 + "s", "s", -1, True, None, [], float("nan"),
     float("inf"), 2**60],
)  # fmt: skip
def test_what_is_no_duration(given: object) -> None:

    with pytest.raises(ValueError, match=r"duration|between|negative"):
        duration_ms(given)


@pytest.mark.parametrize("text", ["0ms", "250ms", "30s", "1h 30m", "10d", "1d 1h 1m 1s 1ms", "30d"])
def test_a_duration_is_told_as_it_would_be_written(text: str) -> None:
    assert duration_text(duration_ms(text)) == text
