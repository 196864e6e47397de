"""Durations as requests and scripts write them: ms as a number, or text (`30s`, `1h 30m`, `PT90S`)."""

import math
import re

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ms|s|m|h|d|w)")
_SUM = re.compile(rf"{_PART.pattern}(?:\s*{_PART.pattern}){{0,9}}")
_NUMBER = re.compile(r"\d{1,16}")
_AMOUNT = r"(\d{1,12}(?:[.,]\d{1,9})?)"
_ISO = re.compile(
    rf"P(?:{_AMOUNT}W)?(?:{_AMOUNT}D)?(?:T(?=\d)(?:{_AMOUNT}H)?(?:{_AMOUNT}M)?(?:{_AMOUNT}S)?)?"
)
_ISO_UNITS = ("w", "d", "h", "m", "s")
DURATION_MAX_MS = 2**53
_SHAPES = "a number of ms, or text like 250ms, 30s, 5m, 2h, 10d, 1w, 1h 30m or PT90S"


def duration_ms(value: object) -> int:
    """Return whole ms, rounded up. ValueError with a message for the caller otherwise."""
    if isinstance(value, str):
        total = _text_ms(value.strip())
    elif isinstance(value, int | float) and not isinstance(value, bool):
        total = float(value)
    else:
        raise ValueError(f"A duration is {_SHAPES}.")  # noqa: TRY004  (pydantic reports ValueError)
    if not 0 <= total <= DURATION_MAX_MS:
        raise ValueError("A duration must not be negative or beyond 2^53 ms.")
    return math.ceil(total)


def duration_text(ms: int) -> str:
    """As it would be written: `1h 30m`, `10d`; 0 is `0ms`."""
    parts, rest = [], ms
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0ms"


def _text_ms(text: str) -> float:
    if _NUMBER.fullmatch(text):
        return float(text)
    if _SUM.fullmatch(text):
        return sum(float(amount) * _UNITS_MS[unit] for amount, unit in _PART.findall(text))
    found = _ISO.fullmatch(text)
    if found is not None and any(found.groups()):
        parts = zip(found.groups(), _ISO_UNITS, strict=True)
        return sum(float(amount.replace(",", ".")) * _UNITS_MS[unit] for amount, unit in parts if amount)
    raise ValueError(f"{text[:40]!r} is no duration: it is {_SHAPES}.")
