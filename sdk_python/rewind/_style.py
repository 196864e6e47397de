"""How text reaches the terminal: colour only where someone looks, control characters never."""

import os
import re
import shutil
import unicodedata
from collections.abc import Mapping
from typing import Any, TextIO

WIDTH_WITHOUT_TTY = 140
_ESCAPES = re.compile("\x1b\\[[0-9;]*m")
_FALLBACK = str.maketrans({"→": ">", "←": "<", "✓": "+", "✗": "x", "…": "~", "⏎": "/", "·": "-"})


class Style:
    """Colours and the width of one output stream."""

    def __init__(self, *, color: bool = False, width: int = WIDTH_WITHOUT_TTY, unicode: bool = True) -> None:
        self.color = color
        self.width = width
        self._unicode = unicode

    @classmethod
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> "Style":
        """Colour on a terminal unless NO_COLOR is set or TERM is dumb; plain marks where UTF-8 isn't spoken."""
        tty = stream.isatty()
        color = tty and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        width = shutil.get_terminal_size((WIDTH_WITHOUT_TTY, 24)).columns if tty else WIDTH_WITHOUT_TTY
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "")
        return cls(color=color, width=max(60, width), unicode=encoding.startswith("utf"))

    def dim(self, text: str) -> str:
        return self._paint("2", text)

    def bold(self, text: str) -> str:
        return self._paint("1", text)

    def red(self, text: str) -> str:
        return self._paint("31", text)

    def green(self, text: str) -> str:
        return self._paint("32", text)

    def yellow(self, text: str) -> str:
        return self._paint("33", text)

    def cyan(self, text: str) -> str:
        return self._paint("36", text)

    def plain(self, text: str) -> str:
        """Text as this stream can take it: what a script wrote can't move the cursor or change colours."""
        kept = _ESCAPES.findall(text) if self.color else []
        parts = _ESCAPES.split(text) if self.color else [text]
        clean = [_without_controls(part) for part in parts]
        if not self._unicode:
            clean = [part.translate(_FALLBACK).encode("ascii", "replace").decode() for part in clean]
        return "".join(part + (kept[i] if i < len(kept) else "") for i, part in enumerate(clean))

    def plain_lines(self, text: str) -> list[str]:
        return [self.plain(line) for line in text.split("\n")]

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text


def clip(text: str, room: int, size: str = "") -> str:
    """`text` within `room` characters; when cut it ends with an ellipsis and its size."""
    if len(text) <= room:
        return text
    mark = f"… {size}" if size else "…"
    return text[: max(1, room - len(mark))] + mark


def counted(number: int, noun: str) -> str:
    """One call, or so many calls."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def without_escapes(value: Any) -> Any:
    """JSON whose texts can't begin a terminal's control sequence: what scripts and tools wrote is not trusted."""
    if isinstance(value, str):
        return value.replace("\x1b", "�")
    if isinstance(value, Mapping):
        return {key: without_escapes(item) for key, item in value.items()}
    return [without_escapes(item) for item in value] if isinstance(value, list) else value


def _without_controls(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char in "\t" or unicodedata.category(char) not in {"Cc", "Cf", "Cs"} else "�" for char in text
    )
