"""Schemas that are no JSON Schema by a detail, as some servers write them: what is meant is plain. Pure.

A language whose empty map is an empty list, a null where nothing should be, `required: true` on a property, `type: "str"`.
Such a schema is read as it is meant, with a warning; what remains wrong disables its tool, as before.
"""

from typing import Any

from app.errors import join_path
from sandbox.journal.ids import Json

NAMED_MAX = 3
"""Places that a warning names; the rest is counted."""
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE = frozenset(
    ["items", "additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then",
     "unevaluatedItems", "unevaluatedProperties"]
)  # fmt: skip
_NULL_IS_A_VALUE = frozenset({"const", "default"})
_TYPES = {
    "any": None,
    "bool": "boolean",
    "dict": "object",
    "double": "number",
    "float": "number",
    "int": "integer",
    "list": "array",
    "none": "null",
    "str": "string",
}
_NAMES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})


def mended(schema: Json) -> tuple[Json, str | None]:
    """The schema as it is meant, and what was read so; None when there was nothing of the kind."""
    notes: list[str] = []
    made = _part(schema, "", notes)
    if not notes:
        return schema, None
    more = f", and {len(notes) - NAMED_MAX} more" if len(notes) > NAMED_MAX else ""
    return made, "; ".join(notes[:NAMED_MAX]) + more


def _part(part: Json, path: str, notes: list[str]) -> Json:
    if not isinstance(part, dict):
        return part
    made: dict[str, Any] = {}
    for word, value in part.items():
        at = join_path(path, word)
        if value is None and word not in _NULL_IS_A_VALUE:
            notes.append(f"{at} is null, and taken as absent")
        elif word in _BY_NAME and value == []:
            notes.append(f"{at} is a list, and taken as an empty object")
            made[word] = {}
        elif word in _BY_NAME and isinstance(value, dict):
            made[word] = {name: _part(inner, join_path(at, name), notes) for name, inner in value.items()}
        elif word in _LISTED | _SINGLE and isinstance(value, list):
            made[word] = [_part(inner, f"{at}[{index}]", notes) for index, inner in enumerate(value)]
        elif word in _SINGLE:
            made[word] = _part(value, at, notes)
        else:
            made[word] = value
    _mend_required(made, path, notes)
    _mend_type(made, path, notes)
    if made.get("enum") == []:
        notes.append(f"{join_path(path, 'enum')} is empty, and taken as absent")
        del made["enum"]
    return made


def _mend_required(made: dict[str, Any], path: str, notes: list[str]) -> None:
    """Names that are required, once each; those of properties that say it of themselves too."""
    at = join_path(path, "required")
    said = made.get("required")
    if said in ({}, []):  # draft-04 has no empty list here
        notes.append(f"{at} is empty, and taken as absent")
        del made["required"]
        said = None
    if isinstance(said, str):
        notes.append(f"{at} is a text, and taken as a list of one name")
        said = made["required"] = [said]
    properties = made.get("properties")
    themselves = []
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if isinstance(inner, dict) and isinstance(inner.get("required"), bool):
            notes.append(f"{join_path(path, f'properties.{name}.required')} is said of the property itself")
            if inner.pop("required"):
                themselves.append(name)
    if themselves and isinstance(said, list | None):
        said = made["required"] = [*(said or []), *themselves]
    if isinstance(said, list) and all(isinstance(name, str) for name in said):
        once = list(dict.fromkeys(said))
        if len(once) < len(said) and not themselves:
            notes.append(f"{at} names one twice")
        made["required"] = once


def _mend_type(made: dict[str, Any], path: str, notes: list[str]) -> None:
    given = made.get("type")
    if not isinstance(given, str) or given in _NAMES:
        return
    lower = given.lower()
    meant = lower if lower in _NAMES else _TYPES.get(lower, given)
    if meant == given:
        return
    notes.append(f"{join_path(path, 'type')} is {given[:40]!r}, and taken as {meant or 'anything'}")
    if meant is None:
        del made["type"]
    else:
        made["type"] = meant
