"""Warnings about `main` itself: parameters that get nothing, and calls of it that run it twice. Read from tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

from sandbox.compiler.source import Source


@dataclass(frozen=True, slots=True)
class MainUse:
    code: str
    message: str
    hint: str
    start: int
    end: int


def main_uses(source: Source) -> Iterator[MainUse]:
    tokens = source.tokens
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "mark":
            depth += (token.text in {"{", "(", "["}) - (token.text in {"}", ")", "]"})
        called = token.kind == "word" and token.text == "main" and _is(source, index + 1, "(")
        if depth or not called:
            continue
        if _is(source, index - 1, "function"):
            yield from _further_parameters(source, index + 1)
        elif index == 0 or token.new_line or tokens[index - 1].text in {"await", "void", ";"}:
            yield MainUse(
                "main_called",
                "Rewind calls `main` itself, with the run's input: by this line it runs twice.",
                "leave the call out",
                token.start,
                token.end,
            )


def _further_parameters(source: Source, opening: int) -> Iterator[MainUse]:
    """Those after the first that have no default and no `?`."""
    closing = source.closing(opening)
    if closing is None:
        return
    depth, beginning = 0, opening + 1
    starts: list[int] = []
    for index in range(opening, closing):
        token = source.tokens[index]
        if token.kind == "mark":
            depth += (token.text in {"{", "(", "[", "<"}) - (token.text in {"}", ")", "]", ">"})
        if depth == 1 and token.kind == "mark" and token.text == "," and index + 1 < closing:
            beginning = index + 1
            starts.append(beginning)
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else closing
        texts = [token.text for token in source.tokens[start:end]]
        if "=" in texts or "?" in texts:
            continue
        name = source.tokens[start]
        yield MainUse(
            "main_parameters",
            f"`main` takes one argument, the run's input: `{name.text}` is always undefined.",
            f"put it into the input: `main(input: {{ …; {name.text}: … }})`",
            name.start,
            name.end,
        )


def _is(source: Source, index: int, text: str) -> bool:
    return 0 <= index < len(source.tokens) and source.tokens[index].text == text
