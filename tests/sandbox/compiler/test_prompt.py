"""The prompt rendering: what is said of a tool, and what is left out when a budget is small."""

from typing import Any

import pytest

from sandbox.compiler.prompt import BUDGET_MIN, compact, render_prompt
from sandbox.compiler.tokens import estimate_tokens
from sandbox.compiler.typed_tools import TypedTool, typed_tools
from tests.fixtures.recorded import pinned, recorded_tools


def typed(input_schema: Any, **fields: Any) -> TypedTool:
    return typed_tools([pinned("g.t", input_schema, **fields)], [])[0]


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def test_one_line_has_types_and_the_first_sentence() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}, "b-c": {"type": ["number", "null"]}},
    }
    tool = typed(
        schema,
        description="Does *this*\nand that. Then more.",
        output_schema=object_of(n={"type": "integer"}),
    )
    assert compact(tool) == (
        'g.t(args?: { a?: "x" | "y"; "b-c"?: number | null }): { n: number } // Does *this* and that.'
    )
    assert compact(typed({"type": "object", "properties": {}})) == "g.t(): any"
    assert compact(typed({"type": "object"}, approval=True)) == (
        "g.t(args?: { [key: string]: unknown }): any // [waits for approval]"
    )


def test_shared_types_stand_above_small_and_single_ones_inside() -> None:
    small = {"type": "object", "properties": {"x": {"type": "number"}}}
    large = object_of(**{f"field{n}": {"type": "string"} for n in range(12)})
    tree = object_of(label={"type": "string"}, kids={"type": "array", "items": {"$ref": "#/$defs/Tree"}})
    schema = object_of(
        one={"$ref": "#/$defs/Small"}, two={"$ref": "#/$defs/Small"}, three={"$ref": "#/$defs/Large"},
        four={"$ref": "#/$defs/Large"}, tree={"$ref": "#/$defs/Tree"},
    )  # fmt: skip
    *above, last = compact(typed({**schema, "$defs": {"Small": small, "Large": large, "Tree": tree}})).split(
        "\n"
    )
    assert [line.split(" = ")[0] for line in above] == ["type GTLarge", "type GTTree"]
    assert last.startswith(
        "g.t({ one: { x?: number }; two: { x?: number }; three: GTLarge; four: GTLarge; tree: GTTree })"
    )


def test_a_type_that_holds_itself_is_named() -> None:
    assert compact(typed({**object_of(name={"type": "string"}), "properties": {"next": {"$ref": "#"}}})) == (
        "type GTArgs = { next?: GTArgs; name: unknown };\ng.t(GTArgs): any"
    )


@pytest.mark.parametrize("budget", [BUDGET_MIN, 150, 300, 700, 1_500, 3_000, 6_000, 12_000, 20_000, 100_000])
def test_every_budget_holds(budget: int) -> None:
    tools = typed_tools(recorded_tools(), [])
    for http in (False, True):
        text = render_prompt(tools, http=http, budget=budget)
        assert estimate_tokens(text) <= budget
        assert ("http" in text) is http or budget == BUDGET_MIN
        whole = text == render_prompt(tools, http=http, budget=None)
        assert whole or "search_tools finds tools" in text.splitlines()[-1]
    if budget >= 1_500:  # enough for all names
        missing = [tool.name for tool in tools if tool.member not in text]
        assert missing == []
    if budget >= 3_000:
        assert estimate_tokens(text) > 0.85 * budget or whole


def test_workflows_are_imported_from_their_own_module() -> None:
    order = object_of(n={"type": "number"})
    names = {"workflows.order": order, "workflows.order.start": order, "ping": {"type": "object"}}
    order_, start, ping = typed_tools([pinned(name, schema) for name, schema in names.items()], [])
    head, line = render_prompt([order_, start], http=False, budget=None).splitlines()
    assert head.startswith('// import { order } from "rewind:workflows";')
    assert line.startswith("order({ n: number })")  # what `order.start` takes is what `order` takes
    both = render_prompt([order_, start, ping], http=True, budget=None)
    assert '// import { http, ping } from "rewind:tools"' in both
    small = render_prompt([order_, start, ping], http=True, budget=BUDGET_MIN)
    assert estimate_tokens(small) <= BUDGET_MIN
