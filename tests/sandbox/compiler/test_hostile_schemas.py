"""Schemas made to break whoever compiles them: bounded by named limits, said in warnings, and the text compiles."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.compiler.declarations import declare
from sandbox.compiler.prompt import compact, render_prompt
from sandbox.compiler.schema_types import DEPTH_MAX, ENUM_VALUES_MAX, NODES_MAX, TOOLSET_NODES_MAX
from sandbox.compiler.typed_tools import typed_tools
from tests.fixtures.recorded import pinned
from tests.fixtures.typescript import type_check

TEXT_CHARS_MAX = 4_000_000


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def deep_value(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return {"type": "object", "properties": {"a": {"const": value, "default": value}}}


def doubled(levels: int) -> Any:
    """Each definition refers twice to the next."""
    defs: dict[str, Any] = {
        f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"$ref": f"#/$defs/a{n + 1}"}]}
        for n in range(levels)
    }
    defs[f"a{levels}"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": defs}


def spread(levels: int) -> Any:
    """Each definition has two properties of the next."""
    defs: dict[str, Any] = {
        f"a{n}": {"type": "object", "properties": {key: {"$ref": f"#/$defs/a{n + 1}"} for key in "xy"}}
        for n in range(levels)
    }
    defs[f"a{levels}"] = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"$ref": "#/$defs/a0", "$defs": defs}


def variant(name: str) -> Any:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


def product(factors: int) -> Any:
    """All combinations of a choice between two, so many times."""
    return {"allOf": [{"anyOf": [variant(f"a{n}"), variant(f"b{n}")]} for n in range(factors)]}


def one_of_each(variants: int, properties: int) -> Any:
    names = [f"p{n}" for n in range(properties)]
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "anyOf": [{"required": [name]} for name in names[:variants]],
    }


BOMBS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "depth": (lambda: deep(5_000), f"to a depth of {DEPTH_MAX}"),
    "depth of a value": (lambda: deep_value(2_000), None),
    "enum": (lambda: {"type": "object", "properties": {"a": {"enum": [f"v{n}" for n in range(10**6)]}}},
             f"an enum of 1,000,000 values is typed by their kind (at most {ENUM_VALUES_MAX:,})"),
    "enums": (lambda: {"type": "object", "properties": {f"p{n}": {"enum": list(range(1_000))} for n in range(100)}},
              f"typed up to {NODES_MAX:,} parts"),
    "references doubled": (lambda: doubled(30), None),
    "references doubled without end": (lambda: doubled(3_000), None),
    "references spread": (lambda: spread(3_000), None),
    "references in the same place": (
        lambda: {"$ref": "#/$defs/a0", "$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(5_000)}},
        f"to a depth of {DEPTH_MAX}"),
    "product": (lambda: product(20), None),
    "product of many": (lambda: product(2_000), f"typed up to {NODES_MAX:,} parts"),
    "required by turns": (lambda: one_of_each(300, 300), None),
    "many properties": (lambda: {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}},
                        f"typed up to {NODES_MAX:,} parts"),
    "many variants": (lambda: {"anyOf": [variant(f"p{n}") for n in range(50_000)]}, f"typed up to {NODES_MAX:,} parts"),
    "many variants that fit": (lambda: {"anyOf": [variant(f"p{n}") for n in range(4_000)]}, None),
    "many patterns": (lambda: {"type": "object", "patternProperties": {f"^a{n}": {"const": n} for n in range(5_000)}},
                      "5,000 patterns are typed as one"),
    "long words": (lambda: {"type": "object", "description": "x" * 10**6, "properties": {
        "p" * 10**5: {"type": "string", "description": "*/" * 10**6, "default": "y" * 10**6}}}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_bounded(name: str) -> None:
    make, said = BOMBS[name]
    schema = make()
    began = time.process_time()
    made = declare([pinned("t", schema, output_schema=schema), pinned("fine", {"type": "object"})])
    prompt = render_prompt(typed_tools([pinned("t", schema)], []), http=False, budget=1_000)
    print(f"{name}: {time.process_time() - began:.2f} s, {len(made.text):,} characters")
    assert len(made.text) < TEXT_CHARS_MAX
    assert prompt
    assert type_check({"tools.d.ts": made.text}) == []
    if said is None:
        assert all(warning.startswith("t: ") for warning in made.warnings)
    else:
        assert any(said in warning for warning in made.warnings), made.warnings


def test_a_toolset_of_bombs_is_bounded() -> None:
    tools = [pinned(f"t{n}", one_of_each(40, 100)) for n in range(500)]
    warnings: list[str] = []
    began = time.process_time()
    typed = typed_tools(tools, warnings)
    print(f"500 tools: {time.process_time() - began:.2f} s")
    assert len(typed) == 500
    assert all(len(compact(tool)) < TEXT_CHARS_MAX for tool in typed)
    if warnings:
        assert f"a toolset is typed up to {TOOLSET_NODES_MAX:,} parts" in warnings[0]
