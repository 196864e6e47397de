"""Make a script ready to run, or say why it cannot: types blanked, positions kept, imports named.

Runs inside the compiler process. What it decides by itself is only what must be known before anything parses
the text; the rest is done by the epoch's stripper and by V8's own parser.
"""

import re
from typing import Any

import orjson

from sandbox.isolate.compiled import Compiled, Diagnostic, Import
from sandbox.isolate.engine import Engine, Handle, Isolate, ScriptThrewError
from sandbox.journal.codeframe import code_frame

__all__ = ["Compiled", "Diagnostic", "Import", "Stripper", "early_refusal"]

SCRIPT_BYTES_MAX = 256 * 1024
STRIPPER_HEAP_BYTES = 640 * 1024 * 1024
STRIP_BUDGET_US = 1_250_000
"""The largest scripts need 250 ms, 500 in a new process; the parser takes exponential time for some small ones."""
PARSE_HEAP_BYTES = 256 * 1024 * 1024
_V8_POSITION = re.compile(r"^(?:script\.ts|<anonymous>):(\d+): (?:SyntaxError: )?(.*)$", re.MULTILINE)
_SYNTAX_HINTS = {
    "has already been declared": "use another name; imports count as declarations",
    "await is only valid": "make the function around it `async`",
    "Missing initializer in const": "give the constant a value, or use `let`",
    "Unexpected eval or arguments": "`eval` and `arguments` cannot be names in strict code",
    "Duplicate parameter name": "two imports have the same name: rename one with `as`",
}


class StripperFault(Exception):
    """The stripper itself failed on a script."""


class Stripper:
    """The epoch's stripper, loaded once; scripts of all namespaces pass through it one after another."""

    def __init__(self, engine: Engine, source: str) -> None:
        self._engine = engine
        self._isolate = Isolate(engine, heap_bytes=STRIPPER_HEAP_BYTES)
        entry = self._isolate.evaluate(source, budget_us=30_000_000)
        if not isinstance(entry, Handle) or not entry.is_function:
            raise StripperFault("the stripper gave no entry function")
        self._entry = entry

    def strip(self, source: str) -> Compiled | list[Diagnostic]:
        """Limits: STRIP_BUDGET_US of CPU; then the process must be replaced.

        Errors: StoppedError at a limit; StripperFault.
        """
        if (refusal := early_refusal(source)) is not None:
            return [refusal]
        answer = self._isolate.call(self._entry, text=source.encode(), budget_us=STRIP_BUDGET_US)
        if not isinstance(answer, str):
            raise StripperFault("the stripper answered no text")
        parsed: dict[str, Any] = orjson.loads(answer)
        if parsed["compiled"] is None:
            return [_framed(source, diagnostic) for diagnostic in parsed["diagnostics"]]
        found = parsed["compiled"]
        compiled = Compiled.from_json({**found, "epoch": 0})
        refusal = self._parse(source, compiled)
        return compiled if refusal is None else [refusal]

    def _parse(self, source: str, compiled: Compiled) -> Diagnostic | None:
        """Let V8 compile the script, without running it: it knows errors that the stripper's parser leaves."""
        isolate = Isolate(self._engine, heap_bytes=PARSE_HEAP_BYTES)
        try:
            function = isolate.evaluate(compiled.wrapper(), budget_us=STRIP_BUDGET_US)
        except ScriptThrewError as error:
            return _syntax_error(source, str(error))
        finally:
            isolate.close()
        if not isinstance(function, Handle) or not function.is_function:
            return _syntax_error(source, "script.ts:2: a bracket is closed that was never opened\n")
        return None


def early_refusal(source: str) -> Diagnostic | None:
    """What is refused before anything parses the text."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return _at(
            source.encode(errors="replace").decode(),
            "lone_surrogate",
            "The script holds half of a character (a lone surrogate), which no text file can.",
            line,
            1,
            hint='write it as an escape in a string, such as "\\ud83d"',
        )
    if size > SCRIPT_BYTES_MAX:
        return _at(
            source,
            "script_too_large",
            f"The script is {size} bytes; at most {SCRIPT_BYTES_MAX} are allowed.",
            1,
            1,
            hint="pass data as the run's input or read it from a tool",
        )
    return None


def _syntax_error(source: str, message: str) -> Diagnostic:
    """V8 names the line in the wrapper, which has one line more than the script, and points with carets."""
    found = _V8_POSITION.search(message)
    line = max(int(found[1]) - 1, 1) if found else 1
    text = (found[2] if found else message.splitlines()[0])[:500]
    caret = next((row for row in message.splitlines() if row.strip() and not row.strip(" \t^")), "")
    start = caret.find("^") + 1
    column = max(start, 1)
    end = column + max(caret.count("^"), 1) if start else column
    hint = next((hint for part, hint in _SYNTAX_HINTS.items() if part in text), None)
    return _at(source, "syntax_error", f"{text}.", line, column, end_column=end, hint=hint)


def _framed(source: str, diagnostic: dict[str, Any]) -> Diagnostic:
    return Diagnostic(**diagnostic, frame=code_frame(source, diagnostic["line"], diagnostic["column"]))


def _at(
    source: str,
    code: str,
    message: str,
    line: int,
    column: int,
    *,
    end_column: int | None = None,
    hint: str | None = None,
) -> Diagnostic:
    frame = code_frame(source, line, column) if code != "script_too_large" else ""
    return Diagnostic("error", code, message, line, column, line, end_column or column, frame, hint)


def too_complex(source: str) -> Diagnostic:
    return _at(
        source,
        "too_complex",
        "The script took too long to read.",
        1,
        1,
        hint="split long expressions and deep nesting; move data into the run's input",
    )
