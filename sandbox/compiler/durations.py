"""Durations that are written out and that no clock understands: `sleep("10 days")` throws, perhaps ten days late."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.compiler.imports import Imports
from sandbox.compiler.source import Source, Token

FOUND_MAX = 20
WAITS_MAX = 20
"""Calls of waitForSignal that are looked into: each may hold the others."""
TYPE_TOKENS_MAX = 100
"""Between its name and its arguments."""
EXAMPLES = 'milliseconds, or text such as "30s", "5m", "1h 30m", "10d"'
_WORDS = re.compile(r"-?(?:\s*[0-9]+(?:\.[0-9]+)?\s*(?:ms|s|m|h|d|w)(?![a-z]))+\s*", re.ASCII)
_ISO = re.compile(r"-?\s*P[0-9.,WDTHMS]+", re.ASCII)
"""More than there is: what is refused here is refused there, not the other way round."""
_SPELLED = re.compile(
    r"([0-9]+(?:\.[0-9]+)?)\s*(millisecond|msec|second|sec|minute|min|hour|hr|day|week)s?", re.IGNORECASE
)
_UNITS = {
    "millisecond": "ms",
    "msec": "ms",
    "second": "s",
    "sec": "s",
    "minute": "m",
    "min": "m",
    "hour": "h",
    "hr": "h",
    "day": "d",
    "week": "w",
}


@dataclass(frozen=True, slots=True)
class BadDuration:
    text: str
    hint: str
    start: int
    end: int


def bad_durations(source: Source, imports: Imports) -> Iterator[BadDuration]:
    """In calls of `sleep`, and as `timeout` of `waitForSignal`; only texts that stand there as they are."""
    count = 0
    for token in _written(source, imports):
        if count < FOUND_MAX and not understood(token.text[1:-1]):
            count += 1
            yield BadDuration(token.text, _hint(token.text[1:-1]), token.start, token.end)


def understood(text: str) -> bool:
    """Whether module rewind may take this text: one with an escape or a placeholder is not judged."""
    stripped = text.strip()
    if "\\" in text or "${" in text:
        return True
    return bool(_WORDS.fullmatch(stripped) or _ISO.fullmatch(stripped))


def _written(source: Source, imports: Imports) -> Iterator[Token]:
    tokens = source.tokens
    waits = 0
    for index, token in enumerate(tokens):
        called = imports.rewind.get(token.text) if token.kind == "word" else None
        opening = index + 1
        if called == "sleep" and _marks(tokens, opening, "("):
            if _marks(tokens, opening + 2, ")") or _marks(tokens, opening + 2, ","):
                yield from _text_at(tokens, opening + 1)
        elif called == "waitForSignal" and waits < WAITS_MAX:
            waits += 1
            yield from _timeouts(source, index)


def _timeouts(source: Source, index: int) -> Iterator[Token]:
    """The `timeout` in the options of a call that may have type arguments."""
    tokens = source.tokens
    reach = range(index + 1, min(index + TYPE_TOKENS_MAX, len(tokens)))
    opening = next((at for at in reach if tokens[at].text in {"(", ";"}), None)
    if opening is None or tokens[opening].text != "(" or (closing := source.closing(opening)) is None:
        return
    for at in range(opening, closing - 2):
        named = tokens[at].text == "timeout" and tokens[at + 1].text == ":"
        if named and tokens[at + 3].text in {",", "}"}:
            yield from _text_at(tokens, at + 2)


def _text_at(tokens: list[Token], index: int) -> Iterator[Token]:
    token = tokens[index]
    if token.kind == "text" and len(token.text) >= 2 and token.text[0] == token.text[-1]:
        yield token


def _marks(tokens: list[Token], index: int, text: str) -> bool:
    return index < len(tokens) and tokens[index].kind == "mark" and tokens[index].text == text


def _hint(text: str) -> str:
    spelled = _SPELLED.fullmatch(text.strip())
    if spelled is not None:
        return f'write `"{spelled[1]}{_UNITS[spelled[2].lower()]}"`'
    return f"write {EXAMPLES}"
