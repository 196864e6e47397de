"""Calls whose outcome nobody waits for: a script that forgets an `await` works by accident, or not at all."""

from dataclasses import dataclass

from sandbox.compiler.imports import Imports
from sandbox.compiler.source import Source, Token

FOUND_MAX = 20
WAITING = frozenset({"sleep", "waitForSignal", "retry"})
"""Of module rewind: what gives a promise."""
_ENDS_STATEMENT = frozenset({";", "{", "}", ")", "]"})
_ENDS_VALUE = frozenset({"else", "do"})
_GOES_ON = frozenset(
    [
        "await",
        "return",
        "yield",
        "typeof",
        "void",
        "new",
        "delete",
        "throw",
        "case",
        "in",
        "of",
        "instanceof",
        "as",
        "satisfies",
        "extends",
        "default",
    ]
)


@dataclass(frozen=True, slots=True)
class Floating:
    """A call at [start, end). tool: what it calls; None: something of module rewind, or `.forEach`."""

    start: int
    end: int
    path: str
    tool: str | None
    each: bool = False
    """A callback of forEach is async: forEach waits for none."""


def floating_calls(source: Source, imports: Imports) -> list[Floating]:
    found: list[Floating] = []
    tokens = source.tokens
    for index, token in enumerate(tokens):
        if len(found) >= FOUND_MAX:
            break
        if token.kind != "word":
            continue
        if token.text == "forEach" and _calls_async(tokens, index):
            path, first = source.path_before(index)
            found.append(Floating(tokens[first].start, token.end, path, None, each=True))
        elif _begins_statement(tokens, index):
            call = _call(source, imports, index)
            if call is not None:
                found.append(call)
    return found


def _calls_async(tokens: list[Token], index: int) -> bool:
    return [token.text for token in tokens[index - 1 : index + 3]] in (
        [".", "forEach", "(", "async"],
        ["?.", "forEach", "(", "async"],
    )


def _begins_statement(tokens: list[Token], index: int) -> bool:
    if index == 0:
        return True
    before = tokens[index - 1]
    if before.kind == "mark":
        return before.text in _ENDS_STATEMENT
    if before.text in _ENDS_VALUE:
        return True
    return tokens[index].new_line and before.text not in _GOES_ON


def _call(source: Source, imports: Imports, index: int) -> Floating | None:
    """The call that begins with this word, if it is a whole statement that handles no failure."""
    tokens = source.tokens
    first = index
    head = tokens[index].text
    while index + 2 < len(tokens) and tokens[index + 1].text == "." and tokens[index + 2].kind == "word":
        index += 2
    if index + 1 >= len(tokens) or tokens[index + 1].text != "(":
        return None
    path, _ = source.path_before(index)
    tool = imports.called(path)
    waits = "." not in path and imports.rewind.get(head) in WAITING
    if tool is None and not waits:
        return None
    end = _end_of_statement(source, index + 1)
    if end is None:
        return None
    return Floating(tokens[first].start, tokens[end].end, path, tool)


def _end_of_statement(source: Source, opening: int) -> int | None:
    """Index of the last token of the call, chained `.then` and `.finally` included; None: it is used, or handled."""
    tokens = source.tokens
    while True:
        closing = source.closing(opening)
        if closing is None:
            return None
        after = tokens[closing + 1] if closing + 1 < len(tokens) else None
        if after is None or after.text in {";", "}"}:
            return closing
        if after.text not in {".", "?."}:
            return (
                closing
                if after.new_line and after.kind in {"word", "text"} and after.text not in _GOES_ON
                else None
            )
        if closing + 3 >= len(tokens) or tokens[closing + 2].text not in {"then", "finally"}:
            return None
        if tokens[closing + 3].text != "(" or _has_two_arguments(source, closing + 3):
            return None
        opening = closing + 3


def _has_two_arguments(source: Source, opening: int) -> bool:
    depth = 0
    for token in source.tokens[opening:]:
        if token.kind != "mark":
            continue
        if token.text in "([{":
            depth += 1
        elif token.text in ")]}":
            depth -= 1
            if depth == 0:
                return False
        elif token.text == "," and depth == 1:
            return True
    return False
