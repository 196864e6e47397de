"""The diagnostics of a script as its author reads them: few, in order, each with its place and its fix.

At most BYTES_MAX in all: the reader is a language model, and what does not fit is counted, not shown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from sandbox.compiler.context import Context, Raw
from sandbox.compiler.durations import BadDuration, bad_durations
from sandbox.compiler.explain import explain
from sandbox.compiler.floating import Floating, floating_calls
from sandbox.compiler.habits import fenced, in_other_words
from sandbox.compiler.imports import imports_of
from sandbox.compiler.main_use import main_uses
from sandbox.compiler.open_types import leaves_open, of_open_value
from sandbox.compiler.source import Source, too_deep_at
from sandbox.compiler.toolset import Toolset
from sandbox.isolate.compiled import Diagnostic
from sandbox.journal.codeframe import code_frame

BYTES_MAX = 4_096
SHOWN_MAX = 12
EXPLAINED_MAX = 100
"""Of what the compiler says, errors first; the rest is counted. Explaining looks through the script each time."""
CONTEXT_LINES = 2
NESTED = "nested_too_deeply"
"""A script that the stripper could not read to its end."""
LINES_NAMED_MAX = 6
WARNINGS = frozenset({7006, 7031})
_FOLLOWS = frozenset({1294, 1206, 1219, 1240, 1241, 1192, 1343, 1323, 2307, 2591, 2792, 1202, 1203})
"""Said by the stripper in better words, when it refuses the same line."""
_SYNTAX = frozenset({"TS1005", "TS1109", "TS1128", "TS1003"})


@dataclass(frozen=True, slots=True)
class _Found:
    error: bool
    code: str
    message: str
    hint: str | None
    start: int
    end: int


def readable(
    text: str, toolset: Toolset, raws: Iterable[Raw], refusals: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Bring together what the compiler and the stripper say. refusals: the stripper's, already in words."""
    fence = fenced(text)
    if fence is not None:
        return [fence]
    source = Source(text)
    unread = [refusal for refusal in refusals if refusal.code == NESTED]
    if unread:  # nothing more is known of it, and what it takes to look for warnings is its author's choice
        return _within_bytes(source, [], unread[:1], 0)
    imports = imports_of(source)
    raws = list(raws)
    open_shapes = leaves_open(toolset)
    lines = {source.line_of(source.offset(raw["pos"])) for raw in raws if raw["category"] == 1}
    kept = [in_other_words(one, text, toolset) for one in _kept(refusals, lines)]
    refused = {refusal.line for refusal in kept}
    judged: list[tuple[bool, Context]] = []
    for raw in raws:
        start, end = source.offset(raw["pos"]), source.offset(raw["end"])
        follows = raw["code"] in _FOLLOWS and (source.line_of(start) in refused or raw["code"] == 1294)
        if kept and follows:
            continue
        context = Context(source, toolset, imports, raw, start, end)
        error = raw["category"] == 1 and raw["code"] not in WARNINGS
        judged.append((error and not (open_shapes and of_open_value(context)), context))
    judged.sort(key=lambda one: (not one[0], one[1].start))
    found = [_told(error, context) for error, context in judged[:EXPLAINED_MAX]]
    if not any(one.code in _SYNTAX for one in found):
        found += [_floating(one) for one in floating_calls(source, imports)]
        found += [
            _Found(False, one.code, one.message, one.hint, one.start, one.end) for one in main_uses(source)
        ]
        found += [_bad_duration(one) for one in bad_durations(source, imports)]
    return _within_bytes(source, _ordered(source, found), kept, len(judged[EXPLAINED_MAX:]))


def _told(error: bool, context: Context) -> _Found:  # noqa: FBT001
    told = explain(context)
    return _Found(error, f"TS{context.code}", told.message, told.hint, context.start, context.end)


def _kept(refusals: Sequence[Diagnostic], lines: set[int]) -> list[Diagnostic]:
    """The stripper's refusals that the compiler does not say better, one of each kind for a line."""
    kept: dict[tuple[str, int], Diagnostic] = {}
    for refusal in refusals:
        better = refusal.code.startswith("TS") or refusal.code in {"syntax_error", "unknown_export"}
        if not (better and refusal.line in lines):
            kept.setdefault((refusal.code, refusal.line), refusal)
    return list(kept.values())


def too_complex(text: str) -> Diagnostic:
    """For a script on which the checker gave up."""
    return Diagnostic(
        severity="error",
        code="too_complex",
        message="The script's types are too complex to check within 2 s and 1 GiB.",
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        frame=code_frame(text, 1, 1),
        hint="remove recursive and computed types (conditional, mapped, template); write plain types, or `any`",
    )


def nested_too_deeply(text: str) -> Diagnostic | None:
    """What is refused before the checker reads it."""
    at = too_deep_at(text)
    if at is None:
        return None
    line, column = Source(text).place(at)
    return Diagnostic(
        severity="error",
        code=NESTED,
        message="Brackets and braces are nested more than 64 deep here.",
        line=line,
        column=column,
        end_line=line,
        end_column=column + 1,
        frame=code_frame(text, line, column),
        hint="split the expression; read big data from a tool or the run's input",
    )


def _floating(call: Floating) -> _Found:
    if call.each:
        return _Found(
            False,
            "floating_promise",
            f"`{call.path}` does not wait for its async callback.",
            f"write `for (const one of {call.path.rpartition('.')[0]}) {{ await … }}`, or `await Promise.all(list.map(async …))`",
            call.start,
            call.end,
        )
    if call.tool is None:
        return _Found(
            False,
            "floating_promise",
            f"Nothing waits for `{call.path}(…)`.",
            f"write `await {call.path}(…)`",
            call.start,
            call.end,
        )
    return _Found(
        False,
        "floating_tool_call",
        f"Nothing waits for `{call.path}(…)`: its result and its failure are lost.",
        f"write `await {call.path}(…)`; if that is meant, `void {call.path}(…)`",
        call.start,
        call.end,
    )


def _bad_duration(found: BadDuration) -> _Found:
    message = f"{found.text} is no duration: a RangeError is thrown here."
    return _Found(False, "bad_duration", message, found.hint, found.start, found.end)


def _ordered(source: Source, found: list[_Found]) -> list[_Found]:
    """Errors first, in the order of the text; a repeated message names the other lines; no warning beside an error."""
    lines_wrong = {source.line_of(one.start) for one in found if one.error}
    kept: dict[tuple[str, str], _Found] = {}
    others: dict[tuple[str, str], dict[int, None]] = {}
    for one in sorted(found, key=lambda one: (not one.error, one.start)):
        line = source.line_of(one.start)
        if not one.error and line in lines_wrong and one.code.startswith("TS"):
            continue
        key = (one.code, one.message)
        if key not in kept:
            kept[key] = one
        elif line != source.line_of(kept[key].start):
            others.setdefault(key, {})[line] = None
    return [_naming(one, list(others.get(key, ()))) for key, one in kept.items()]


def _naming(one: _Found, lines: list[int]) -> _Found:
    if not lines:
        return one
    named = ", ".join(map(str, lines[:LINES_NAMED_MAX])) + (", …" if len(lines) > LINES_NAMED_MAX else "")
    return replace(one, message=f"{one.message} (Also on line {named}.)")


def _within_bytes(
    source: Source, found: list[_Found], refusals: list[Diagnostic], unread: int
) -> list[Diagnostic]:
    shown: list[Diagnostic] = []
    candidates = len(found) + len(refusals) + unread
    context = CONTEXT_LINES if candidates <= 4 else 1 if candidates <= 8 else 0
    left = BYTES_MAX - 300  # for the last one, which counts the rest
    waiting: list[Diagnostic | _Found] = [*refusals, *found]
    hidden = unread
    for one in waiting:
        diagnostic = one if isinstance(one, Diagnostic) else _framed(source, one, context)
        size = _size(diagnostic)
        if size > left:  # its place and what is wrong, without what others may have said already
            diagnostic = replace(diagnostic, frame="", hint=None)
            size = _size(diagnostic)
        if size > left or len(shown) >= SHOWN_MAX:
            hidden += 1
            continue
        left -= size
        shown.append(diagnostic)
    if hidden:
        shown.append(_more(waiting, hidden))
    return shown


def _size(diagnostic: Diagnostic) -> int:
    return len(orjson.dumps(diagnostic.to_json()))


def _more(found: Sequence[Diagnostic | _Found], hidden: int) -> Diagnostic:
    wrong = any(one.error if isinstance(one, _Found) else one.severity == "error" for one in found)
    return Diagnostic(
        severity="error" if wrong else "warning",
        code="more",
        message=f"{hidden} more are not shown: correct these first.",
        line=1,
        column=1,
        end_line=1,
        end_column=1,
        frame="",
    )


def _framed(source: Source, one: _Found, context: int) -> Diagnostic:
    line, column = source.place(one.start)
    end_line, end_column = source.place(one.end)
    return Diagnostic(
        severity="error" if one.error else "warning",
        code=one.code,
        message=one.message,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        frame=code_frame(source.text, line, column, context=context),
        hint=one.hint,
    )
