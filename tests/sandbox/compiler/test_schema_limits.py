"""What validation may cost, and what is not checked when it would cost more."""

import time
from typing import Any

import pytest

from sandbox.compiler.json_schema import SchemaError, ValueValidator, check_schema
from sandbox.compiler.schema_limits import (
    EVALUATIONS_MAX,
    SCHEMA_DEPTH_MAX,
    VALUE_DEPTH_MAX,
    depth_of,
    size_problem,
    usable_depth,
)
from tests.fixtures.recorded import recorded_tools


def doubled(levels: int, *, inside: bool) -> Any:
    """Each definition applies the next twice, to the same place or to the same part of it."""

    def applied(n: int) -> Any:
        reference = {"$ref": f"#/$defs/a{n}"}
        return {"properties": {"x": reference}} if inside else reference

    defs: dict[str, Any] = {f"a{n}": {"allOf": [applied(n + 1), applied(n + 1)]} for n in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "object"}}}


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("levels", [30, 300])
def test_references_that_multiply_are_not_followed(inside: bool, levels: int) -> None:  # noqa: FBT001
    schema = doubled(levels, inside=inside)
    (warning,) = check_schema(schema)
    depth = usable_depth(schema)
    assert depth < 20
    assert warning.startswith(f"Values nested deeper than {depth} are not checked")
    began = time.process_time()
    assert ValueValidator(schema).problem(nested(levels)) is None
    assert time.process_time() - began < 5  # 2^30 evaluations take minutes


def test_a_recursion_that_branches_is_checked_as_deep_as_it_can_be() -> None:
    variants = [{"type": "object", "properties": {"x": {"$ref": "#"}}, "required": [name]} for name in "abc"]
    schema = {"anyOf": variants}
    depth = usable_depth(schema)
    assert 3**depth <= EVALUATIONS_MAX < 3 ** (depth + 3)
    validator = ValueValidator(schema)
    assert "too many branches" in str(validator.problem(nested(depth)))
    assert "is not valid under any of the schemas" in str(validator.problem(nested(3)))
    assert validator.problem(nested(depth + 1)) is None


def test_ordinary_schemas_are_checked_to_any_depth() -> None:
    chain = {"type": "object", "properties": {"x": {"$ref": "#"}, "y": {"type": "string"}}}
    for schema in (chain, {}, {"$ref": "#/$defs/none"}, doubled(10, inside=True), doubled(10, inside=False)):
        assert usable_depth(schema) == VALUE_DEPTH_MAX
    value = nested(VALUE_DEPTH_MAX - 2)
    inner = value
    while inner["x"]:
        inner = inner["x"]
    inner["y"] = 1
    assert ValueValidator(chain).problem(value) is not None
    for tool in recorded_tools():
        assert usable_depth(tool["input_schema"]) == VALUE_DEPTH_MAX


def test_schemas_that_are_too_much() -> None:
    deep: Any = {}
    for _ in range(SCHEMA_DEPTH_MAX):
        deep = {"not": deep}
    assert size_problem(deep["not"]) is None
    assert "nested deeper than 180" in str(size_problem(deep))
    assert "at most 262,144" in str(size_problem({"enum": ["x" * 300_000]}))
    assert "U+0000" in str(size_problem({"title": "\0"}))
    assert size_problem({"pattern": "\\u0000"}) is None
    with pytest.raises(SchemaError, match="nested deeper"):
        check_schema(deep)


def test_depths_are_counted_no_further_than_asked() -> None:
    assert [depth_of(nested(n), 5) for n in (0, 3, 5, 6, 100)] == [0, 3, 5, 6, 6]
    assert depth_of([1, [2]], 5) == 2


def test_a_stray_reference_does_not_switch_off_its_schema() -> None:
    schema = {
        "properties": {"a": {"$ref": "https://example.com/x"}, "b": {"type": "string"}},
        "required": ["b"],
    }
    validator = ValueValidator(schema)
    assert validator.problem({"a": 1, "b": "x"}) is None
    assert validator.problem({"a": 1, "b": 2}) is not None
    assert validator.problem({"a": 1}) is not None
