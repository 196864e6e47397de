"""What the comment of a property says: its description, then what its type cannot express."""

from typing import Any

from sandbox.compiler.ts_text import doc_lines, quoted

DOC_CHARS_MAX = 1_000
"""Of the description of one property."""
VALUE_DEPTH_MAX = 64
"""Of a value that a schema lists or gives as a default; deeper ones are not written out."""
_SHOWN_PARTS_MAX = 20
_NOTED = ("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
          "minLength", "maxLength", "minItems", "maxItems")  # fmt: skip
_NOTE_CHARS_MAX = 120


def documented(schema: Any, *, at_most: str = "") -> tuple[str, ...]:
    """Lines of the comment. `at_most`: "description" leaves the rest out."""
    if not isinstance(schema, dict):
        return ()
    description = schema.get("description")
    lines = doc_lines(description, DOC_CHARS_MAX) if isinstance(description, str) else []
    if at_most == "description":
        return tuple(lines)
    notes = ["@deprecated"] if schema.get("deprecated") is True else []
    if "default" in schema:
        notes.append(f"@default {_note(schema['default'])}")
    notes += [f"@{word} {_note(schema[word])}" for word in _NOTED if _notable(schema.get(word))]
    return tuple(lines + doc_lines(" ".join(notes), DOC_CHARS_MAX))


def _notable(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _note(value: Any) -> str:
    text = value if isinstance(value, str) and value.isprintable() and " " not in value else _json(value)
    return text if len(text) <= _NOTE_CHARS_MAX else f"{text[:_NOTE_CHARS_MAX]}…"


def _json(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value[: _NOTE_CHARS_MAX + 1])
    if isinstance(value, dict | list):
        size = value_size(value)
        return "{…}" if size is None or size > _SHOWN_PARTS_MAX else _compact(value)
    return _compact(value)


def _compact(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{quoted(name)}: {_compact(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ", ".join(_compact(item) for item in value) + "]"
        case str():
            return quoted(value)
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case _:
            return str(value)


def value_size(value: Any, depth: int = 0) -> int | None:
    """Parts of a JSON value; None when it is too deep to be typed."""
    if depth > VALUE_DEPTH_MAX:
        return None
    if not isinstance(value, dict | list):
        return 1
    sizes = [value_size(item, depth + 1) for item in (value.values() if isinstance(value, dict) else value)]
    return None if None in sizes else 1 + sum(size for size in sizes if size is not None)
