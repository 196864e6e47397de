"""JSON Schemas of tools: checked when a toolset is pinned, used to validate what tools are given and return.

Schemas come from customers: nothing is ever fetched for them, and a check whose cost is not known to be small is
made in a process of its own (`value_checks`), so that no schema can stall a process that serves others.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import orjson
from jsonschema_rs import FancyRegexOptions, RegexOptions

from sandbox.compiler.schema_limits import (
    VALUE_DEPTH_MAX,
    bounds_of,
    depth_of,
    size_problem,
    usable_depth,
)
from sandbox.compiler.schema_refs import References, UnresolvedRef
from sandbox.journal.canonical import path_text

BACKTRACK_MAX = 100_000
INLINE_WORK_MAX = 8_000_000
"""Bytes of the schema times bytes of a value: below, a check takes some 70 ms at worst, and mostly far less than one."""
INLINE_LOOK_AROUND_BYTES = 128
INLINE_LOOK_AROUND_SCHEMA_BYTES = 4_096
"""The same for schemas with look-arounds or back-references, whose cost is a power of a text's length."""
DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
}
_LATEST = "json-schema.org/schema"
"""Whatever is newest: says no more than naming none."""
_UNNAMED = (
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-04/schema",
)
"""Of a schema that names none. The last is what OpenAPI 3.0 has: `exclusiveMinimum: true`."""
_REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
_ERRORS_MAX = 5


class SchemaError(ValueError):
    """The schema is none; `path` is where."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def check_schema(schema: Any) -> list[str]:
    """Return warnings about a schema that can be used.

    Errors: SchemaError when it is no JSON Schema, or of a dialect that is not supported.
    """
    if not isinstance(schema, dict):
        raise SchemaError("", "a JSON Schema here is an object")
    if (too_much := size_problem(schema)) is not None:
        raise SchemaError("", f"this schema is not taken: {too_much}")
    problem: SchemaError | None = None
    for dialect in _dialects(schema):
        meta = {"$schema": dialect} | {key: value for key, value in schema.items() if key != "$schema"}
        try:
            jsonschema_rs.meta.validate(meta)
        except jsonschema_rs.ValidationError as error:
            problem = problem or SchemaError(path_text(tuple(error.instance_path)), _short(error.message))
        else:
            problem = None
            break
    if problem is not None:
        raise problem
    try:
        _build(schema)
    except ValueError as error:
        return [f"Values are not checked against this schema: {_short(str(error))}"]
    warnings = [
        f"The pattern {pattern[:80]!r} is no regular expression, and not checked."
        for pattern in sorted(_bad_patterns(schema))[:_ERRORS_MAX]
    ]
    depth = usable_depth(schema)
    if depth < VALUE_DEPTH_MAX:
        return [
            *warnings,
            f"Values nested deeper than {depth} are not checked against this schema: its references multiply.",
        ]
    return warnings


class ValueValidator:
    """Validates against one pinned schema; a schema that cannot be used accepts everything."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._bounds = bounds_of(schema)
        self._validator: Any = None
        self._linear = True
        if isinstance(schema, dict):
            try:
                self._validator, self._linear = _build(schema)
            except ValueError:
                self._validator = None  # said in the warnings when the toolset was pinned
        self._bytes = 0 if self._validator is None else len(orjson.dumps(schema))

    def is_cheap(self, size: int) -> bool:
        """Whether checking a value of so many bytes is known to take some ms at most."""
        if self._validator is None:
            return True
        if self._bounds.explained < VALUE_DEPTH_MAX:
            return False
        if not self._linear:
            return size <= INLINE_LOOK_AROUND_BYTES and self._bytes <= INLINE_LOOK_AROUND_SCHEMA_BYTES
        return max(self._bytes, self._bounds.evaluations * 8) * size <= INLINE_WORK_MAX

    def problem(self, value: Any) -> str | None:
        """Say what is wrong with the value, by path; None when it is valid or cannot be checked."""
        return in_words(self.problems(value))

    def problems(self, value: Any) -> list[tuple[str, str]]:
        """(path, what is wrong there), the first few; none when the value is valid or cannot be checked."""
        if self._validator is None:
            return []
        if _deeper(value, self._bounds.checked) or self._validator.is_valid(value):
            return []
        if _deeper(value, self._bounds.explained):
            return [("", "the value does not match the schema, which has too many branches to say where")]
        errors = itertools.islice(self._validator.iter_errors(value), _ERRORS_MAX)
        found = [(path_text(tuple(error.instance_path)), _short(error.message)) for error in errors]
        return found or [("", "the value does not match the schema")]


def in_words(problems: list[tuple[str, str]]) -> str | None:
    return "; ".join(f"{path}: {message}" if path else message for path, message in problems) or None


def _deeper(value: Any, depth_max: int) -> bool:
    return depth_max < VALUE_DEPTH_MAX and depth_of(value, depth_max) > depth_max


def _dialects(schema: dict[str, Any]) -> list[str]:
    """Dialects to be tried; a schema that names none may be written in any that is in use."""
    named = schema.get("$schema")
    if named is None:
        return list(_UNNAMED)
    dialect = named.removesuffix("#") if isinstance(named, str) else ""
    scheme, _, place = dialect.partition("://")
    if place == _LATEST:
        return list(_UNNAMED)
    found = next((known for known in DIALECTS if known.endswith(f"://{place}")), None)
    if found is None or scheme not in {"http", "https"}:
        raise SchemaError(
            "$schema", "JSON Schema 2020-12, 2019-09, draft-07, draft-06 and draft-04 are supported"
        )
    return [found]


def _build(schema: dict[str, Any]) -> tuple[Any, bool]:
    """(a validator, whether its patterns are matched in linear time); look-arounds and back-references are not.

    A reference that leads nowhere and a pattern that is none check nothing; the rest is checked all the same.
    """
    first: ValueError | None = None
    schema = _with_nulls(schema)
    for tried in (schema, None):
        made = _usable(schema) if tried is None else tried
        for dialect in _dialects(schema):
            for options in (RegexOptions(), FancyRegexOptions(backtrack_limit=BACKTRACK_MAX)):
                try:
                    made_of = DIALECTS[dialect](made, offline=True, pattern_options=options)
                    return made_of, isinstance(options, RegexOptions)
                except ValueError as error:
                    first = first or error
    raise first or ValueError("no dialect fits")


def _with_nulls(part: Any) -> Any:
    """Where OpenAPI 3.0's `nullable` lets null in, let it in as JSON Schema says it; references stay what they were."""
    if isinstance(part, list):
        return [_with_nulls(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {word: item if word in _DATA else _with_nulls(item) for word, item in part.items()}
    if made.get("nullable") is not True:
        return made
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    if isinstance(made.get("enum"), list):
        made["enum"] = [*made["enum"], None]
    if "const" in made:
        made["enum"] = [made.pop("const"), None]
    for word in ("anyOf", "oneOf"):
        if isinstance(made.get(word), list):
            made[word] = [*made[word], {"type": "null"}]
    return made


def _patterns(part: Any) -> Iterator[str]:
    if isinstance(part, list):
        for item in part:
            yield from _patterns(item)
    elif isinstance(part, dict):
        if isinstance(part.get("pattern"), str):
            yield part["pattern"]
        for word, item in part.items():
            if word not in _DATA:
                yield from _patterns(item)


def _bad_patterns(schema: Any) -> set[str]:
    """Patterns that no engine takes; keys of `patternProperties` are not looked at."""

    def is_bad(pattern: str) -> bool:
        try:
            jsonschema_rs.Draft7Validator(
                {"pattern": pattern}, pattern_options=FancyRegexOptions(backtrack_limit=BACKTRACK_MAX)
            )
        except ValueError:
            return True
        return False

    return {pattern for pattern in set(_patterns(schema)) if is_bad(pattern)}


def _usable(schema: dict[str, Any]) -> Any:
    """Without references that lead nowhere, and without patterns that are none."""
    references, bad = References(schema), _bad_patterns(schema)

    def copy(part: Any) -> Any:
        if isinstance(part, list):
            return [copy(item) for item in part]
        if not isinstance(part, dict):
            return part
        return {word: copy(item) for word, item in part.items() if not useless(word, item)}

    def useless(word: str, item: Any) -> bool:
        return (word in _REFERRING and stray(item)) or (
            word == "pattern" and isinstance(item, str) and item in bad
        )

    def stray(reference: Any) -> bool:
        if not isinstance(reference, str):
            return False
        try:
            references.resolve(reference)
        except UnresolvedRef:
            return True
        return False

    return copy(schema)


def _short(message: str) -> str:
    line = message.partition("\n")[0]
    return line if len(line) <= 300 else line[:300] + "…"
