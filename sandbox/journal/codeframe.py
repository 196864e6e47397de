"""A position of a script, shown in its source."""

import re

_CONTEXT_LINES = 2
_WIDTH_MAX = 160
_LINE_END = re.compile("\r\n|[\n\r\u2028\u2029]")


def code_frame(source: str, line: int, column: int, *, context: int = _CONTEXT_LINES) -> str:
    """Show a position of a source: lines of context around it, a caret under it.

    Shapes: line and column are 1-based, columns count UTF-16 units; empty when there is no such line.
    """
    lines = _LINE_END.split(source)
    if not 1 <= line <= len(lines):
        return ""
    first, last = max(1, line - context), min(len(lines), line + context)
    width = len(str(last))
    shown = []
    for number in range(first, last + 1):
        text = lines[number - 1]
        shown.append(f"{'>' if number == line else ' '} {number:>{width}} | {text[:_WIDTH_MAX]}".rstrip())
        if number == line:
            before = text.encode("utf-16-le", "surrogatepass")[: 2 * (column - 1)].decode(
                "utf-16-le", "replace"
            )
            pad = "".join("\t" if character == "\t" else " " for character in before[:_WIDTH_MAX])
            shown.append(f"  {' ' * width} | {pad}^")
    return "\n".join(shown)
