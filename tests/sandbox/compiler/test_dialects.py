"""Schemas as older drafts and OpenAPI write them: typed, and checked by the rules of their own draft."""

import json
from typing import Any

import pytest

from sandbox.compiler.json_schema import SchemaError, ValueValidator, check_schema
from tests.fixtures.cases import OWN
from tests.fixtures.recorded import pinned
from tests.sandbox.compiler.test_declarations import errors_in


def nasty(name: str) -> Any:
    return json.loads((OWN / "nasty-schemas" / f"{name}.json").read_text())


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("17_openapi30", {"size": 1}, {"size": 0}),
        (
            "18_draft2019_recursive",
            {"name": "a", "kids": [{"name": "b"}]},
            {"name": "a", "kids": [{"name": 1}]},
        ),
        ("18_draft2019_recursive", {"name": "a", "pair": ["x", 1]}, {"name": "a", "pair": [1]}),
        ("19_draft04", {"low": 1, "node": {"next": {}}}, {"low": 0}),
        (
            "20_dynamic_ref",
            {"root": {"v": "a", "kids": [{"v": "b"}]}},
            {"root": {"v": "a", "kids": [{"v": 1}]}},
        ),
        ("21_ids", {"a": {"n": 1}, "b": 2}, {"b": "2"}),
        ("22_refs_in_circles", {"b": 1, "a": "x"}, {"b": "1"}),
    ],
)
def test_values_are_checked(name: str, right: Any, wrong: Any) -> None:
    validator = ValueValidator(nasty(name))
    assert validator.problem(right) is None
    if name != "22_refs_in_circles":  # no validator follows a circle of references
        assert validator.problem(wrong) is not None
    script = 'import { t } from "rewind:tools";\n' + "\n".join(
        f"void t({json.dumps(value)});" for value in (right, wrong)
    )
    found = [error[:11] for error in errors_in([pinned("t", nasty(name))], script)]
    ranges_only = name in {"17_openapi30", "19_draft04"}  # types know no ranges
    assert found == ([] if ranges_only else ["script.ts:3"])


def test_a_null_that_openapi_allows() -> None:
    script = (
        'import { t } from "rewind:tools";\nvoid t({ size: 1, note: null });\nvoid t({ size: 1, note: 1 });'
    )
    assert [error[:11] for error in errors_in([pinned("t", nasty("17_openapi30"))], script)] == [
        "script.ts:3"
    ]
    validator = ValueValidator(nasty("17_openapi30"))
    assert validator.problem({"size": 1, "note": None}) is None
    assert validator.problem({"size": 1, "note": 1}) is not None
    assert validator.problem({"size": None}) is not None


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string", "enum": ["a"], "nullable": True}, "a", "b"),
        ({"const": 1, "nullable": True}, 1, 2),
        ({"anyOf": [{"type": "string"}, {"type": "number"}], "nullable": True}, "a", True),
        ({"type": "string", "nullable": False}, "a", None),
        ({"properties": {"nullable": {"type": "string"}}}, {"nullable": "a"}, {"nullable": None}),
        ({"enum": [{"type": "string", "nullable": True}]}, {"type": "string", "nullable": True}, None),
    ],
)
def test_only_nullable_lets_null_in(schema: Any, right: Any, wrong: Any) -> None:
    validator = ValueValidator(schema)
    assert validator.problem(right) is None
    assert validator.problem(wrong) is not None
    if schema.get("nullable"):
        assert validator.problem(None) is None


@pytest.mark.parametrize(
    "name", ["http://json-schema.org/draft-03/schema#", "ftp://json-schema.org/draft-07/schema", 7]
)
def test_dialects_that_are_not_known(name: Any) -> None:
    with pytest.raises(SchemaError, match="2020-12, 2019-09, draft-07") as caught:
        check_schema({"$schema": name, "type": "object"})
    assert caught.value.path == "$schema"


@pytest.mark.parametrize(
    "name",
    [
        "http://json-schema.org/draft-06/schema#",
        "https://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-04/schema",
    ],
)
def test_dialects_that_are(name: str) -> None:
    assert check_schema({"$schema": name, "type": "object", "properties": {"a": {"type": "string"}}}) == []


def test_a_pattern_that_is_none_is_not_checked_and_the_rest_is() -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {"a": {**text, "pattern": "["}, "b": {**text, "pattern": "^(?=x)"}, "pattern": text},
        "required": ["a"],
    }
    assert check_schema(schema) == ["The pattern '[' is no regular expression, and not checked."]
    validator = ValueValidator(schema)
    assert validator.problem({"a": "anything", "b": "xy", "pattern": "["}) is None
    for wrong in ({"a": 1}, {}, {"a": "x", "b": "y"}, {"a": "x", "pattern": 1}):
        assert validator.problem(wrong) is not None


def test_the_newest_dialect_is_that_of_a_schema_that_names_none() -> None:
    schema = {"$schema": "http://json-schema.org/schema#", "type": "object", "required": ["a"]}
    assert check_schema(schema) == []
    assert ValueValidator(schema).problem({}) is not None
