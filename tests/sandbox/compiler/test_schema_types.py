"""Types say what the schemas say: a JSON Schema validator and the TypeScript compiler judge the same values."""

import json
import os
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from sandbox.compiler.declarations import declare
from tests.fixtures.recorded import recorded_tools
from tests.fixtures.schemas import SchemaMaker, mutated, sampled
from tests.fixtures.typescript import type_check

SEED = int(os.environ.get("REWIND_SEED", "20261129"))
SCHEMAS, VALUES, MUTATIONS = 120, 3, 5


def closed(schema: Any) -> Any:
    """The schema with everything closed that does not say it is open: what inputs are typed as."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(part) for key, part in schema.items()}
    if "allOf" in made:
        names = {name: True for part in made["allOf"] for name in part["properties"]}
        parts = [{**part, "properties": {**names, **part["properties"]}} for part in made["allOf"]]
        return {**made, "allOf": parts}
    if made.get("type") == "object" and "properties" in made and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def judged(tools: list[dict[str, Any]], values: list[tuple[str, Any]]) -> list[bool]:
    """Whether TypeScript takes each value as the argument of its tool."""
    lines = ["import * as tools from 'rewind:tools';"]
    lines += [f"void tools.{name}({json.dumps(value)});" for name, value in values]
    made = declare(tools)
    assert made.warnings == ()
    found = type_check({"tools.d.ts": made.text, "script.ts": "\n".join(lines)})
    assert {error.file for error in found} <= {"script.ts"}, found
    wrong = {error.line for error in found}
    return [number not in wrong for number in range(2, len(values) + 2)]


@pytest.mark.parametrize("turn", range(3))
def test_types_and_schemas_agree(turn: int) -> None:
    print(f"REWIND_SEED={SEED}")
    random = Random(SEED + turn)
    maker = SchemaMaker(random)
    tools, values, expected = [], [], []
    for number in range(SCHEMAS):
        schema = maker.tool_schema()
        oracle = jsonschema_rs.Draft202012Validator(closed(schema))
        name = f"tool_{number}"
        tools.append({"name": name, "original": name, "description": "", "input_schema": schema})
        for _ in range(VALUES):
            value = maker.value(schema)
            assert oracle.is_valid(value), (schema, value)
            for found in [value, *(mutated(random, value) for _ in range(MUTATIONS))]:
                values.append((name, found))
                expected.append(oracle.is_valid(found))
    assert 0.2 < sum(expected) / len(expected) < 0.8
    answers = judged(tools, values)
    schemas = {tool["name"]: tool["input_schema"] for tool in tools}
    wrong = [
        f"{'valid' if valid else 'invalid'}, TypeScript says otherwise: {json.dumps(value)} for {json.dumps(schemas[name])}"
        for (name, value), valid, answer in zip(values, expected, answers, strict=True)
        if valid != answer
    ]
    assert wrong == [], f"{len(wrong)} of {len(values)}:\n" + "\n".join(wrong[:10])


def test_types_of_recorded_tools_take_what_their_schemas_take() -> None:
    """And refuse a stray property, a missing one, and one of another kind, where the schema refuses it."""
    random = Random(SEED)
    print(f"REWIND_SEED={SEED}")
    tools = recorded_tools()
    values: list[tuple[str, Any]] = []
    expected = []
    for tool in tools:
        schema = tool["input_schema"]
        oracle = jsonschema_rs.validator_for(schema)
        samples = [sampled(random, schema, schema) for _ in range(12)]
        valid = [sample for sample in samples if oracle.is_valid(sample)]
        assert valid, f"{tool['name']}: {samples[0]}"
        values += [(tool["name"], sample) for sample in valid]
        expected += [True] * len(valid)
        for name in schema.get("properties", {}):
            odd = {**valid[0], name: [{"odd": [1]}]}
            missing = {key: part for key, part in valid[0].items() if key != name}
            wrong = [sample for sample in (odd, missing) if not oracle.is_valid(sample)]
            values += [(tool["name"], sample) for sample in wrong]
            expected += [False] * len(wrong)
        if schema.get("additionalProperties") is not True:
            values.append((tool["name"], {**valid[0], "stray_property": 1}))
            expected.append(False)
    assert expected.count(True) > 1_000
    assert expected.count(False) > 700
    answers = judged(tools, values)
    wrong_answers = [
        f"{'valid' if fits else 'invalid'}, TypeScript says otherwise: {name}({json.dumps(value)})"
        for (name, value), fits, answer in zip(values, expected, answers, strict=True)
        if fits != answer
    ]
    assert wrong_answers == [], f"{len(wrong_answers)} of {len(values)}:\n" + "\n".join(wrong_answers[:10])
