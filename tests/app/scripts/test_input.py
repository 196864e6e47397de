"""Inputs against the schema of main's parameter: the places that are wrong, and their words."""

from typing import Any

import pytest

from app.scripts.input import ERRORS_MAX, input_errors

ISSUE = {
    "type": "object",
    "properties": {
        "repo": {"type": "string"},
        "days": {"type": "number"},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"type": "string"}},
        "odd name": {"type": "null"},
        "at": {"type": "array", "prefixItems": [{"type": "number"}, True], "minItems": 1, "maxItems": 2},
    },
    "required": ["repo"],
}
SHAPES = {
    "anyOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "number"}}, "required": ["kind", "x"]},
        {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "boolean"}}, "required": ["kind", "y"]},
        {"type": "null"},
    ]
}  # fmt: skip
TREE = {
    "$ref": "#/$defs/T1",
    "$defs": {
        "T1": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T1"}, "v": {"type": "number"}}}
    },
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {"anything": [1]}),
        (ISSUE, {"repo": "a/b", "extra": True, "labels": [], "odd name": None, "at": [1, "x"]}),
        (SHAPES, None),
        (SHAPES, {"kind": "b", "y": False}),
        (TREE, {"next": {"next": {}, "v": 1.5}}),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": 1}),
        ({"const": 1}, 1),
    ],
)
def test_accepted(schema: Any, value: Any) -> None:
    assert input_errors(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "value", "path", "code", "message"),
    [
        (ISSUE, None, "input", "wrong_type", "This is null; it must be an object."),
        (ISSUE, {}, "input.repo", "missing", "`repo` is required: a string."),
        (ISSUE, {"repo": 5}, "input.repo", "wrong_type", "This is a number; it must be a string."),
        (ISSUE, {"repo": "a", "days": True}, "input.days", "wrong_type", "This is a boolean; it must be a number."),
        (ISSUE, {"repo": "a", "state": "OPEN"}, "input.state", "invalid_value", 'This is "OPEN"; it must be "open" or "closed".'),
        (ISSUE, {"repo": "a", "labels": ["x", 2]}, "input.labels[1]", "wrong_type", "This is a number; it must be a string."),
        (ISSUE, {"repo": "a", "odd name": 1}, 'input["odd name"]', "wrong_type", "This is a number; it must be null."),
        (ISSUE, {"repo": "a", "at": []}, "input.at", "wrong_length", "This list has 0 elements; it must have 1 to 2."),
        (SHAPES, {"kind": "a"}, "input.x", "missing", "`x` is required: a number."),
        (SHAPES, "a", "input", "wrong_type", 'This is "a"; it must be an object with kind: "a" or an object with kind: "b" or null.'),
        (TREE, {"next": {"v": "1"}}, "input.next.v", "wrong_type", "This is a string; it must be a number."),
        ({"const": True}, 1, "input", "invalid_value", "This is 1; it must be true."),
        (False, 1, "input", "invalid_value", "No JSON value is of this type."),
    ],
)  # fmt: skip
def test_refused(schema: Any, value: Any, path: str, code: str, message: str) -> None:
    first = input_errors(schema, value)[0]
    assert (first.path, first.code, first.message) == (path, code, message)


def test_errors_are_counted() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert len(input_errors(schema, [1] * 1_000)) == ERRORS_MAX


def test_unions_within_unions_are_given_up_in_time() -> None:
    node: dict[str, Any] = {"$ref": "#/$defs/T"}
    choice = {"type": "object", "properties": {"a": node}, "required": ["a"]}
    schema = {"$defs": {"T": {"anyOf": [choice] * 6 + [{"type": "null"}]}}, "$ref": "#/$defs/T"}
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    assert [(error.path, error.code) for error in input_errors(schema, value)] == [("input", "too_complex")]
    long: dict[str, Any] = {"type": "array", "items": {"enum": [f"kind {i}" for i in range(10_000)]}}
    assert [error.code for error in input_errors(long, ["kind 9999"] * 1_000)] == ["too_complex"]


def test_steps_grow_with_the_input_and_messages_do_not() -> None:
    item = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
    many = [{"a": 1}] * 100_000
    assert input_errors({"type": "array", "items": item}, many, size=8 * len(many)) == []
    wide = {"anyOf": [{"const": f"choice {i}"} for i in range(5_000)]}
    (error,) = input_errors(wide, "none of them")
    assert len(error.message) < 600
