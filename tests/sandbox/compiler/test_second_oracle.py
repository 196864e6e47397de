"""Our types beside those of json-schema-to-typescript: wherever the two judge a value differently, the reason is named."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from infra.node import node_path
from sandbox.compiler.declarations import declare
from tests.fixtures.cases import OWN
from tests.fixtures.recorded import pinned, recorded_tools
from tests.fixtures.schemas import mutated, sampled
from tests.fixtures.typescript import type_check

SEED = int(os.environ.get("REWIND_SEED", "20261130"))
PROGRAM = Path(__file__).with_name("second_oracle.cjs")
MODULES = Path(__file__).parents[3] / "tests" / "npm" / "node_modules"
SAMPLES, MUTATIONS = 8, 3
REFUSED = {"n13_missing_and_remote_ref", "n14_remote_ref", "n21_ids", "n22_refs_in_circles"}
"""Theirs has no types for references that lead nowhere, elsewhere, to an `$id` inside or to themselves; ours says
`unknown` and warns where that is so."""


class Judged(NamedTuple):
    tool: str
    value: Any
    valid: bool | None
    """By a JSON Schema validator; None where it does not take the schema."""
    ours: bool
    theirs: bool
    schema: Any


def has(schema: Any, found: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether any part of the schema is like that."""
    if isinstance(schema, dict):
        return found(schema) or any(has(part, found) for part in schema.values())
    return isinstance(schema, list) and any(has(part, found) for part in schema)


def empty_object(part: dict[str, Any]) -> bool:
    return part.get("type") == "object" and not part.get("properties")


def counted(part: dict[str, Any]) -> bool:
    return part.get("type") == "array" and bool(part.keys() & {"minItems", "maxItems"})


REASONS: dict[str, Callable[[Judged], bool]] = {
    "an object without properties is `{}` to theirs, which takes everything that is not null": lambda it: (
        it.theirs and not it.ours and has(it.schema, empty_object)
    ),
    "theirs makes a tuple of minItems and maxItems; ours leaves numbers of items to validation": lambda it: (
        it.ours and not it.theirs and has(it.schema, counted)
    ),
    "theirs knows no prefixItems": lambda it: (
        it.ours and not it.theirs and has(it.schema, lambda part: "prefixItems" in part)
    ),
    "theirs loses what is required without being a property, and alternatives of what is required": lambda it: (
        it.theirs and not it.ours and has(it.schema, lambda part: "zzz" in part.get("required", []))
    ),
    "theirs demands that an absent property with the name of an inherited one be like the inherited one": lambda it: (
        it.tool == "n07_names" and it.ours and not it.theirs
    ),
    "theirs takes no more items than a list of `items` names": lambda it: (
        it.ours and not it.theirs and has(it.schema, lambda part: isinstance(part.get("items"), list))
    ),
    "theirs knows no $recursiveRef and no $dynamicRef": lambda it: (
        it.theirs
        and not it.ours
        and has(it.schema, lambda part: bool(part.keys() & {"$recursiveRef", "$dynamicRef"}))
    ),
    "theirs takes `not` for an object without properties": lambda it: (
        it.ours and not it.theirs and has(it.schema, lambda part: "not" in part)
    ),
}


def of_theirs(schemas: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Titles name their types, so a root's is left out."""
    given = {
        name: {word: part for word, part in schema.items() if word != "title"}
        for name, schema in schemas.items()
    }
    done = subprocess.run(
        [node_path(), PROGRAM],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        input=json.dumps(given).encode(),
        capture_output=True,
        check=True,
    )
    answer: dict[str, dict[str, str]] = json.loads(done.stdout)
    return answer


def judge(schemas: dict[str, Any]) -> list[Judged]:
    """Samples of every schema, valid ones and nearly valid ones, by both."""
    random = Random(SEED)
    names = {tool: f"t{number}" for number, tool in enumerate(schemas)}
    theirs = of_theirs(schemas)
    assert {tool for tool, made in theirs.items() if "error" in made} == REFUSED & schemas.keys()
    values: list[tuple[str, Any, bool | None]] = []
    for tool, schema in schemas.items():
        if tool in REFUSED:
            continue
        try:
            validator = jsonschema_rs.validator_for(schema)
        except jsonschema_rs.ValidationError:
            validator = None
        for _ in range(SAMPLES):
            value = sampled(random, schema, schema)
            values += [
                (tool, found, None if validator is None else validator.is_valid(found))
                for found in [value, *(mutated(random, value) for _ in range(MUTATIONS))]
            ]
    made = declare([pinned(names[tool], schema) for tool, schema in schemas.items()])
    used = [tool for tool in schemas if tool not in REFUSED]
    files = {f"{names[tool]}.ts": theirs[tool]["text"] for tool in used}
    files["tools.d.ts"] = made.text
    head = [f'import type {{ Root as {names[tool]} }} from "./{names[tool]}";' for tool in used]
    files["ours.ts"] = "\n".join(
        ['import * as tools from "rewind:tools";']
        + [f"void tools.{names[tool]}({json.dumps(value)});" for tool, value, _ in values]
    )
    files["theirs.ts"] = "\n".join(
        head
        + [
            f"export const v{n}: {names[tool]} = {json.dumps(value)};"
            for n, (tool, value, _) in enumerate(values)
        ]
    )
    found = type_check(files)
    assert {error.file for error in found} == {"ours.ts", "theirs.ts"}
    refused_by_us = {error.line - 2 for error in found if error.file == "ours.ts"}
    refused_by_them = {error.line - 1 - len(head) for error in found if error.file == "theirs.ts"}
    return [
        Judged(tool, value, valid, n not in refused_by_us, n not in refused_by_them, schemas[tool])
        for n, (tool, value, valid) in enumerate(values)
    ]


def stray(judged: Judged) -> bool:
    """A property that no schema names: inputs are closed, which a validator is not."""
    return has(judged.value, lambda part: bool(part.keys() & {"stray", "odd"}))


def test_where_the_two_disagree_the_reason_is_named() -> None:
    if not (MODULES / "json-schema-to-typescript").exists():
        assert os.environ.get("CI") != "true", "`make test` installs it"
        pytest.skip("json-schema-to-typescript is not installed: `make test` does that")
    print(f"REWIND_SEED={SEED}")
    schemas = {
        case.stem: json.loads(case.read_text()) for case in sorted((OWN / "nasty-schemas").glob("*.json"))
    }
    schemas = {(f"n{name}"): schema for name, schema in schemas.items()}
    schemas |= {tool["name"]: tool["input_schema"] for tool in recorded_tools()}
    judged = judge(schemas)
    refused = [one for one in judged if one.valid and not one.ours and not stray(one)]
    assert [(one.tool, one.value) for one in refused] == [], "ours refuses what the schema takes"
    differing = [one for one in judged if one.ours != one.theirs]
    why = {reason: [one for one in differing if fits(one)] for reason, fits in REASONS.items()}
    for reason, ones in why.items():
        print(f"{len(ones):4} × {reason}: {sorted({one.tool for one in ones})[:4]}")
        assert ones, f"no value shows this any more: {reason}"
    unexplained = [one for one in differing if not any(fits(one) for fits in REASONS.values())]
    shown = [
        (one.tool, one.value, f"ours {one.ours}, theirs {one.theirs}, valid {one.valid}")
        for one in unexplained
    ]
    assert shown == []
    assert len(differing) < 0.2 * len(judged)
