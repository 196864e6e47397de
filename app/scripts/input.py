"""Checks a run's input against the schema that was made of main's parameter: which places are wrong, and how. Pure.

The schema is ours (`sandbox/compiler/main_types.py`), so only what that writes is understood here.
"""

from collections.abc import Iterable
from typing import Any

import orjson

from sandbox.journal.errors import FieldError

ERRORS_MAX = 20
STEPS_MAX = 100_000
STEPS_PER_BYTE = 4
"""Comparisons of a place with a type: unions within unions can make these grow like a power."""
MESSAGE_CHARS_MAX = 500
SHOWN_CHARS_MAX = 60
KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "object": dict,
    "array": list,
}

Schema = dict[str, Any]


def input_errors(schema: Any, value: Any, path: str = "input", *, size: int = 0) -> list[FieldError]:
    """Every wrong place, at most ERRORS_MAX; empty when the input is accepted. `size`: of its text, in bytes."""
    defs = schema.get("$defs", {}) if isinstance(schema, dict) else {}
    try:
        return _Validator(defs, STEPS_MAX + STEPS_PER_BYTE * size).errors(schema, value, path)[:ERRORS_MAX]
    except _TooManyStepsError:
        message = (
            "Checking this against the type of main's parameter takes too long: make its unions and lists of"
            " literals shorter, or take `unknown` and check it in the script."
        )
        return [FieldError(path, "too_complex", message)]


class _TooManyStepsError(Exception):
    pass


class _Validator:
    def __init__(self, defs: Schema, steps: int) -> None:
        self._defs = defs
        self._steps = steps

    def errors(self, schema: Any, value: Any, path: str) -> list[FieldError]:
        self._step()
        if schema is True:
            return []
        if schema is False:
            return [FieldError(path, "invalid_value", "No JSON value is of this type.")]
        if "$ref" in schema:
            return self.errors(self._defs[schema["$ref"].rpartition("/")[2]], value, path)
        if "anyOf" in schema:
            return self._union(schema["anyOf"], value, path)
        if "const" in schema or "enum" in schema:
            wanted = schema["enum"] if "enum" in schema else [schema["const"]]
            self._step(len(wanted) // 8)
            if any(_same(one, value) for one in wanted):
                return []
            listed = " or ".join(_json(one) for one in wanted)
            return [FieldError(path, "invalid_value", _cut(f"This is {_json(value)}; it must be {listed}."))]
        kind = schema.get("type")
        if kind is not None and not _is(kind, value):
            return [
                FieldError(path, "wrong_type", f"This is {_kind_of(value)}; it must be {_article(kind)}.")
            ]
        if kind == "object":
            return self._object(schema, value, path)
        if kind == "array":
            return self._array(schema, value, path)
        return []

    def _step(self, steps: int = 1) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _TooManyStepsError

    def _object(self, schema: Schema, value: Schema, path: str) -> list[FieldError]:
        known = schema.get("properties", {})
        found = [
            FieldError(f"{path}.{name}", "missing", f"`{name}` is required: {self.words(known[name])}.")
            for name in schema.get("required", [])
            if name not in value
        ]
        rest = schema.get("additionalProperties", True)
        for name, item in value.items():
            if len(found) >= ERRORS_MAX:
                break
            described = known.get(name, rest)
            if described is not True:
                found += self.errors(described, item, _join(path, name))
        return found

    def _array(self, schema: Schema, value: list[Any], path: str) -> list[FieldError]:
        prefix = schema.get("prefixItems")
        if prefix is not None:
            if not schema["minItems"] <= len(value) <= schema["maxItems"]:
                least, most = schema["minItems"], schema["maxItems"]
                size = str(least) if least == most else f"{least} to {most}"
                message = f"This list has {len(value)} elements; it must have {size}."
                return [FieldError(path, "wrong_length", message)]
            pairs: Iterable[tuple[Any, Any]] = zip(prefix, value, strict=False)
        else:
            items = schema.get("items", True)
            if items is True:
                return []
            pairs = ((items, one) for one in value)
        found: list[FieldError] = []
        for index, (described, one) in enumerate(pairs):
            found += self.errors(described, one, f"{path}[{index}]")
            if len(found) >= ERRORS_MAX:
                break
        return found

    def _union(self, choices: list[Any], value: Any, path: str) -> list[FieldError]:
        """Nothing when one fits; else what is wrong with the likeliest, or what all of them would be."""
        likely: list[FieldError] | None = None
        for choice in choices:
            found = self.errors(choice, value, path)
            if not found:
                return []
            deeper = all(error.path != path and error.code != "invalid_value" for error in found)
            if deeper and (likely is None or len(found) < len(likely)):
                likely = found
        if likely is not None:
            return likely
        words = " or ".join(dict.fromkeys(self.words(choice) for choice in choices))
        code = "wrong_type" if not isinstance(value, dict) else "invalid_value"
        return [FieldError(path, code, _cut(f"This is {_shown(value)}; it must be {words}."))]

    def words(self, schema: Any) -> str:
        """A schema in a few words."""
        if not isinstance(schema, dict):
            return "any value"
        if "$ref" in schema:
            return "an object"
        if "anyOf" in schema:
            return " or ".join(dict.fromkeys(self.words(one) for one in schema["anyOf"]))
        if "const" in schema:
            return _json(schema["const"])
        if "enum" in schema:
            return " or ".join(_json(one) for one in schema["enum"])
        kind = schema.get("type", "")
        if kind == "object" and schema.get("properties"):
            constants = [
                f"{name}: {_json(one['const'])}"
                for name, one in schema["properties"].items()
                if isinstance(one, dict) and "const" in one
            ]
            return f"an object with {', '.join(constants)}" if constants else "an object"
        if kind == "array" and isinstance(schema.get("items"), dict):
            inner = schema["items"].get("type")
            return f"a list of {inner}s" if inner in {"string", "number", "boolean", "object"} else "a list"
        return _article(kind)


def _is(kind: str, value: Any) -> bool:
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, KINDS[kind])


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _kind_of(value: Any) -> str:
    return next(
        _article(kind)
        for kind in ("null", "boolean", "number", "string", "array", "object")
        if _is(kind, value)
    )


def _article(kind: str) -> str:
    words = {"null": "null", "array": "a list", "object": "an object", "": "any value"}
    return words.get(kind) or f"a {kind}"


def _shown(value: Any) -> str:
    return _kind_of(value) if isinstance(value, dict | list) else _json(value)


def _json(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= SHOWN_CHARS_MAX else text[:SHOWN_CHARS_MAX] + "…"


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_CHARS_MAX else message[:MESSAGE_CHARS_MAX] + "…"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{_json(name)}]"
