"""The JSON Schemas that pydantic writes, made lean and, for inputs, closed."""

from collections.abc import Callable, Mapping
from typing import Any

_MAPS = ("properties", "$defs", "patternProperties")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def closed_schema(schema: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """An input schema in which objects allow what they name and nothing else; `defaults` are shown at the top."""

    def close(node: dict[str, Any]) -> dict[str, Any]:
        if "properties" in node and "additionalProperties" not in node:
            return {**node, "additionalProperties": False}
        return node

    result = _walk(schema, lambda node: close(_untitled(node)))
    result.setdefault("properties", {} if result.get("type") == "object" else result.get("properties"))
    if result["properties"] is None:
        del result["properties"]
        return result
    result.setdefault("additionalProperties", False)
    for name, value in defaults.items():
        if name in result["properties"]:
            result["properties"][name] = {**result["properties"][name], "default": value}
    return result


def plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return _walk(schema, _untitled)


def _untitled(node: dict[str, Any]) -> dict[str, Any]:
    """Without titles: pydantic titles every field with its name in capitals, which tells a model nothing."""
    return {key: value for key, value in node.items() if not (key == "title" and isinstance(value, str))}


def _walk(node: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """`node` with `change` applied to every schema in it; names of properties are not mistaken for keywords."""
    result = dict(node)
    for key in _MAPS:
        if isinstance(result.get(key), dict):
            result[key] = {name: _walk_any(item, change) for name, item in result[key].items()}
    for key in _LISTS:
        if isinstance(result.get(key), list):
            result[key] = [_walk_any(item, change) for item in result[key]]
    for key in _SINGLES:
        if key in result:
            result[key] = _walk_any(result[key], change)
    return change(result)


def _walk_any(node: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    return _walk(node, change) if isinstance(node, dict) else node
