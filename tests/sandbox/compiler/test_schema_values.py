"""Nasty schemas with values that fit and values that do not: types, validation and declarations agree on each.

tests/cases/nasty-schemas/with-values: `schema`, values that are `right`, values that are `wrong` to both, and those
that are `wrong_when_validated` only: types know no ranges, patterns or conditions.
"""

import json
from typing import Any

from sandbox.compiler.declarations import declare
from sandbox.compiler.json_schema import ValueValidator, check_schema
from tests.fixtures.cases import OWN
from tests.fixtures.recorded import pinned
from tests.fixtures.typescript import type_check

CASES = sorted((OWN / "nasty-schemas" / "with-values").glob("*.json"))
KINDS = ("right", "wrong", "wrong_when_validated")
NOWHERE = {"39_broken_ref", "40_external_ref", "41_ref_to_metaschema"}
"""Their references lead nowhere: those parts are `unknown`, with a warning."""


def judged_by_types(cases: dict[str, Any]) -> dict[tuple[str, str, int, str], str | None]:
    """What the compiler says of every value, as the argument (`in`) and as the result (`out`) of a tool."""
    tools = [pinned(f"t{name}", case["schema"], output_schema=case["schema"]) for name, case in cases.items()]
    made = declare(tools)
    assert {warning.split(":")[0][1:] for warning in made.warnings} <= NOWHERE
    keys, lines = [], ['import * as tools from "rewind:tools";']
    for name, case in cases.items():
        for kind in KINDS:
            for number, value in enumerate(case[kind]):
                text = json.dumps(value)
                keys += [(name, kind, number, "in"), (name, kind, number, "out")]
                lines.append(f"void tools.t{name}({text});")
                lines.append(f"void ({text} satisfies Awaited<ReturnType<typeof tools.t{name}>>);")
    found = type_check({"tools.d.ts": made.text, "values.ts": "\n".join(lines)})
    assert {error.file for error in found} == {"values.ts"}
    said = {error.line: error.message for error in reversed(found)}
    return {key: said.get(line) for line, key in enumerate(keys, 2)}


def test_types_and_validation_agree_with_the_author() -> None:
    assert len(CASES) > 60
    cases = {path.stem: json.loads(path.read_text()) for path in CASES}
    judged = judged_by_types(cases)
    unlike = []
    for name, case in cases.items():
        assert (name, check_schema(case["schema"])) == (name, [])
        validator = ValueValidator(case["schema"])
        for kind in KINDS:
            for number, value in enumerate(case[kind]):
                refused = validator.problem(value)
                types = judged[name, kind, number, "in"], judged[name, kind, number, "out"]
                if (refused is None) != (kind == "right"):
                    unlike.append((name, value, f"validation: {refused}"))
                if (types[0] is not None) != (kind == "wrong"):
                    unlike.append((name, value, f"argument: {types[0]}"))
                if kind != "wrong" and types[1] is not None:
                    unlike.append((name, value, f"result: {types[1]}"))
    assert unlike == []
