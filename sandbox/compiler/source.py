"""The text of a script as diagnostics need it: positions, and tokens where no syntax tree is at hand.

The tokens are those of a scanner, not of a parser: good enough to find the call around a position, never the base
of a refusal.
"""

import re
from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

NESTING_MAX = 64
"""Of brackets and braces. Real scripts need about 15; the type-checker's time explodes beyond 100."""

_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n\r\u2028\u2029]*|/\*.*?(?:\*/|\Z))
      |(?P<text>"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|`(?:\\.|[^`\\])*+`?)
      |(?P<word>[A-Za-z_$\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*)
      |(?P<number>\d[\w.]*)
      |(?P<mark>=>|\?\.|\.\.\.|[^\s\w])""",
    re.VERBOSE | re.DOTALL,
)
_BRACKET = re.compile(
    r"""//[^\n\r\u2028\u2029]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?|[\[\]{}]""",
    re.DOTALL,
)
"""Here as above what is not closed goes on to the end of its line or of the text: tried again from each of its quotes,
a hostile text would take a time that grows with the square of its length."""


class Token(NamedTuple):
    """kind: text, word, number or mark; `start` and `end` are offsets in the string."""

    kind: str
    text: str
    start: int
    end: int
    new_line: bool
    """Whether a line ends between the token before it and this one."""


class Source:
    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _pairs(self) -> list[int]:
        """Where characters of two UTF-16 units begin, in units."""
        if self.text.isascii():
            return []
        found = [at for at, mark in enumerate(self.text) if mark > "\uffff"]
        return [at + number for number, at in enumerate(found)]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(found.end() for found in _LINE_END.finditer(self.text))]

    def offset(self, units: int) -> int:
        """The offset in the string of an offset in UTF-16 units."""
        return min(units - bisect_right(self._pairs, units - 2), len(self.text))

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, 1-based, the column in UTF-16 units."""
        line = bisect_right(self._starts, offset)
        before = self.text[self._starts[line - 1] : offset]
        return line, 1 + (
            len(before) if before.isascii() else len(before.encode("utf-16-le", "surrogatepass")) // 2
        )

    def line_text(self, line: int) -> str:
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return self.text[self._starts[line - 1] : end].rstrip("\r\n\u2028\u2029")

    @cached_property
    def tokens(self) -> list[Token]:
        text = self.text
        found: list[Token] = []
        last = 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "mark"
            if kind == "comment":
                continue
            start, end = match.span()
            new_line = last != start and _LINE_END.search(text, last, start) is not None
            found.append(Token(kind, match[0], start, end, new_line))
            last = end
        return found

    @cached_property
    def _token_starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def token_at(self, offset: int) -> int:
        """Index of the last token that begins at or before the offset; -1 when there is none."""
        return bisect_right(self._token_starts, offset) - 1

    def path_before(self, index: int) -> tuple[str, int]:
        """The dotted name that ends with the token `index`, and the index of its first token."""
        tokens = self.tokens
        words: list[str] = []
        first = index
        while index >= 0 and tokens[index].kind == "word":
            words.insert(0, tokens[index].text)
            first = index
            if index < 2 or tokens[index - 1].text not in {".", "?."}:
                break
            index -= 2
        return ".".join(words), first

    def calls_around(self, offset: int) -> list[tuple[str, int]]:
        """Dotted names of the calls whose parentheses are open at the offset, the innermost first; their positions."""
        depth = 0
        found = []
        index = self.token_at(offset - 1)
        while index > 0:
            text = self.tokens[index].text if self.tokens[index].kind == "mark" else ""
            if text in {")", "]", "}"}:
                depth += 1
            elif text in {"(", "[", "{"}:
                depth -= 1
                if depth < 0:
                    depth = 0
                    if text == "(" and self.tokens[index - 1].kind == "word":
                        path, first = self.path_before(index - 1)
                        found.append((path, self.tokens[first].start))
            index -= 1
        return found

    def closing(self, index: int) -> int | None:
        """Index of the bracket that closes the one at `index`."""
        depth = 0
        for at in range(index, len(self.tokens)):
            text = self.tokens[at].text if self.tokens[at].kind == "mark" else ""
            if text in {"(", "[", "{"}:
                depth += 1
            elif text in {")", "]", "}"}:
                depth -= 1
                if depth == 0:
                    return at
        return None


def too_deep_at(text: str) -> int | None:
    """Offset of the first bracket or brace that is nested more than NESTING_MAX deep."""
    depth = 0
    for match in _BRACKET.finditer(text):
        found = match.group()
        # A quote that nothing closes may stand in a regular expression: what follows it counts.
        open_quote = found[0] in "\"'" and (len(found) == 1 or found[-1] != found[0])
        for place, mark in enumerate(found if open_quote or len(found) == 1 else ""):
            if mark in "[{":
                depth += 1
                if depth > NESTING_MAX:
                    return match.start() + place
            elif mark in "]}":
                depth = max(depth - 1, 0)
    return None
