"""What a rule about one diagnostic knows, and what it may say."""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sandbox.compiler.imports import Imports
from sandbox.compiler.source import Source
from sandbox.compiler.toolset import TOOLS_SHOWN, Toolset

Raw = dict[str, Any]
"""A diagnostic as TypeScript's compiler gives it; `pos` and `end` count UTF-16 units."""
SPREAD_CHARS_MAX = 240
"""Of a message beyond which only the reason at the end of its chain is shown."""
_INNER = re.compile(r"(?:Types of property|The types of) '([^']+)'")


@dataclass(frozen=True, slots=True)
class Told:
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Context:
    source: Source
    toolset: Toolset
    imports: Imports
    raw: Raw = field(repr=False)
    start: int
    end: int

    @property
    def code(self) -> int:
        return int(self.raw["code"])

    @property
    def spelled(self) -> str:
        """The text that the compiler points at."""
        return self.source.text[self.start : self.end]

    @cached_property
    def text(self) -> str:
        """The message, and the reason when it only compares two types."""
        text = str(self.raw["text"])
        chain = self.raw.get("messageChain") or []
        reason = None
        path: list[str] = []
        while chain:
            reason = str(chain[0]["text"])
            inner = _INNER.match(reason)
            if inner:
                path.append(inner[1])
            chain = chain[0].get("messageChain") or []
        if reason is None:
            return text.replace(" | undefined'", "'")
        if path:
            return f"`{'.'.join(path)}`: {reason}".replace(" | undefined'", "'")
        return f"{text} {reason}" if len(text) <= SPREAD_CHARS_MAX else reason

    @cached_property
    def path(self) -> str:
        """The dotted name that ends where the compiler points: `github.listIssues`."""
        return self.source.path_before(self.source.token_at(self.start))[0]

    @cached_property
    def calls(self) -> list[str]:
        """Dotted names of the calls in whose parentheses this stands, the innermost first."""
        return [path for path, _ in self.source.calls_around(self.start)]

    @property
    def callee(self) -> str:
        return self.calls[0] if self.calls else ""

    @property
    def tool(self) -> str | None:
        """The tool in whose arguments this stands; for a wrong number of arguments, the one that is called."""
        for path in [self.path] if self.code in {2554, 2555} else self.calls:
            found = self.imports.called(path)
            if self.toolset.called(found) is not None:
                return found
        return None

    def declared(self, name: str) -> re.Match[str] | None:
        """Where a variable of this name gets its value: `const name = `, up to the value."""
        pattern = rf"\b(?:const|let|var)\s+{re.escape(name)}\b[^=\n]{{0,400}}=(?![>=])\s*"
        return re.search(pattern, self.source.text)


def either(names: list[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:TOOLS_SHOWN])
    return shown if len(names) <= TOOLS_SHOWN else f"{shown} and {len(names) - TOOLS_SHOWN} more"
