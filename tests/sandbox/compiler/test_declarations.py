"""Declarations of toolsets: real and nasty schemas compile, and say what they must."""

import json
import re
from typing import Any

from sandbox.compiler.declarations import declarations, declare
from tests.fixtures.cases import OWN
from tests.fixtures.recorded import pinned, recorded_tools
from tests.fixtures.typescript import type_check


def errors_in(tools: list[dict[str, Any]], script: str = "", **options: Any) -> list[str]:
    found = type_check({"tools.d.ts": declarations(tools, **options), "script.ts": script})
    return [f"{error.file}:{error.line} {error.code} {error.message}" for error in found]


def test_every_recorded_tool_compiles() -> None:
    tools = recorded_tools()
    assert len(tools) == 173
    made = declare(tools, http=True)
    assert made.warnings == ()
    assert type_check({"tools.d.ts": made.text}) == []


def test_every_nasty_schema_compiles_as_input_and_output() -> None:
    cases = sorted((OWN / "nasty-schemas").glob("*.json"))
    assert len(cases) >= 16
    tools = [
        pinned(
            f"nasty.n{case.stem}", json.loads(case.read_text()), output_schema=json.loads(case.read_text())
        )
        for case in cases
    ]
    assert errors_in(tools) == []
    for tool in tools:
        assert errors_in([{**tool, "name": "alone"}]) == []


def text_of(input_schema: Any, **fields: Any) -> str:
    return declarations([pinned("t", input_schema, **fields)])


def test_equal_titles_are_different_types() -> None:
    """O24: names come from the tool, never from a title."""
    user = {"type": "object", "title": "User", "required": ["id"]}
    tools = [
        pinned("a", {"type": "object", "title": "Args", "properties": {"user": {**user, "properties": {"id": {"type": "string"}}}}}),
        pinned("b", {"type": "object", "title": "Args", "properties": {"user": {**user, "properties": {"id": {"type": "number"}}}}}),
    ]  # fmt: skip
    script = """import { a, b } from "rewind:tools";
void a({ user: { id: "x" } });
void b({ user: { id: 1 } });
void a({ user: { id: 1 } });
void b({ user: { id: "x" } });"""
    assert [error[:11] for error in errors_in(tools, script)] == ["script.ts:4", "script.ts:5"]


def test_circular_references_are_recursive_types() -> None:
    """O25."""
    node = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "next": {"$ref": "#"}},
        "required": ["name"],
    }
    script = """import { t } from "rewind:tools";
void t({ name: "a", next: { name: "b", next: { name: "c" } } });
void t({ name: "a", next: { name: "b", next: { nam: "c" } } });
t({ name: "a" }).then((found) => found.next?.next?.name.length);"""
    found = errors_in([pinned("t", node, output_schema=node)], script)
    assert [error[:11] for error in found] == ["script.ts:3"]


def test_circles_without_end_are_unknown() -> None:
    for schema in (
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
        {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/B"}]}, "B": {"$ref": "#/$defs/A"}}},
    ):
        made = declare([pinned("t", schema, output_schema=schema)])
        assert any("leads back to itself" in warning for warning in made.warnings)
        assert type_check({"tools.d.ts": made.text}) == []


def test_descriptions_cannot_leave_their_comment() -> None:
    """O26: the text is kept, whatever it holds."""
    evil = (
        "Evil */ export const hack: any; /* `ticks` ${x}\n@deprecated\r\nthird\u2028fourth \x1b[31m\u202e*/"
    )
    schema = {
        "type": "object",
        "properties": {"a*/": {"type": "string", "description": evil, "default": evil}},
    }
    tools = [pinned("t", schema, description=evil), pinned("u", {**schema, "description": evil, "$ref": "#/$defs/A",
             "$defs": {"A": {"type": "object", "description": evil}}})]  # fmt: skip
    made = declarations(tools)
    script = 'import { hack } from "rewind:tools";\nexport default () => hack;'
    found = type_check({"tools.d.ts": made, "script.ts": script})
    assert [(error.file, error.code) for error in found] == [("script.ts", "TS2305")]
    assert "Evil *\\/ export const hack: any; /* `ticks` ${x}" in made
    assert not {"\x1b", "\u202e", "\u2028"} & set(made)


def test_definitions_are_typed() -> None:
    """O28: `$defs`, `definitions`, anchors, ids and escaped pointers."""
    schema = {
        "$id": "https://example.com/root", "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/definitions/b~1c%20d"}, "c": {"$ref": "#spot"},
            "d": {"$ref": "https://example.com/root#/$defs/A"}, "e": {"$ref": "other.json"},
        },
        "required": ["a", "b", "c", "d", "e"],
        "$defs": {"A": {"enum": ["x", "y"]}, "S": {"$anchor": "spot", "type": "boolean"},
                  "O": {"$id": "other.json", "type": "array", "items": {"type": "number"}}},
        "definitions": {"b/c d": {"type": "object", "properties": {"n": {"type": "number"}}}},
    }  # fmt: skip
    script = """import { t } from "rewind:tools";
void t({ a: "x", b: { n: 1 }, c: true, d: "y", e: [1] });
void t({ a: "z", b: { n: 1 }, c: true, d: "y", e: [1] });
void t({ a: "x", b: { n: "1" }, c: true, d: "y", e: [1] });
void t({ a: "x", b: { n: 1 }, c: 1, d: "y", e: [1] });
void t({ a: "x", b: { n: 1 }, c: true, d: "z", e: [1] });
void t({ a: "x", b: { n: 1 }, c: true, d: "y", e: ["1"] });"""
    found = errors_in([pinned("t", schema)], script)
    assert [error[:11] for error in found] == [f"script.ts:{line}" for line in range(3, 8)]


def test_properties_that_every_object_inherits_may_be_left_out() -> None:
    named = {name: {"type": "string"} for name in ("constructor", "toString", "valueOf", "a")}
    loose = {"type": "object", "properties": named, "additionalProperties": {"type": "string"}}
    for schema in ({"type": "object", "properties": named}, loose):
        script = """import { t } from "rewind:tools";
void t({}); void t({ a: "x" }); void t({ constructor: "x", toString: "y" });
void t({ constructor: 1 });
void t().then((found) => found.constructor?.length);"""
        found = errors_in([pinned("t", schema, output_schema=schema)], script)
        assert [error[:11] for error in found] == ["script.ts:3"]


def test_what_a_tool_says_of_itself() -> None:
    text = text_of({"type": "object"}, description="Does it.", original="t-t", approval=True)
    for said in (
        "Does it.",
        "Its owner calls it 't-t'.",
        "until a person approves it",
        "The shape of the result isn't checked.",
    ):
        assert f" * {said}" in text or said in text
    assert "t(args?: TArgs, options?: CallOptions): Promise<any>;" in text


def test_inputs_are_closed_and_outputs_may_have_more() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
    }
    script = """import { t } from "rewind:tools";
void t({ a: { b: "x" } }).then((found) => { const b: string | undefined = found.a?.b; return b; });
void t({ a: { c: "x" } });
void t({ d: 1 });
const recorded = { a: { b: "x", more: 1 }, extra: true };
const result: Awaited<ReturnType<typeof t>> = recorded;
void result;
void t().then((found) => found.typo);"""
    found = errors_in([pinned("t", schema, output_schema=schema)], script)
    assert [error[:11] for error in found] == ["script.ts:3", "script.ts:4", "script.ts:8"]


def test_arguments_may_be_left_out_when_none_is_required() -> None:
    tools = [
        pinned("none", {"type": "object", "properties": {}}),
        pinned("some", {"type": "object", "properties": {"a": {"type": "string"}}}),
        pinned("one", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    ]
    script = """import { none, some, one } from "rewind:tools";
void none(); void none({}); void some(); void some({}, { timeout: 5 });
void one();
void none({ stray: 1 });
void one({ a: "x" }, { timeot: 5 });"""
    assert [error[:11] for error in errors_in(tools, script)] == ["script.ts:3", "script.ts:4", "script.ts:5"]


def test_names_of_groups_and_members() -> None:
    tools = [
        pinned(name, {"type": "object"})
        for name in ("g.delete", "g.class", "g.é", "gTools", "g.$x", "日本.名", "string.any")
    ]
    script = """import { g, gTools, 日本, string } from "rewind:tools";
void g.delete(); void g.class(); void g.é(); void g.$x(); void gTools(); void 日本.名(); void string.any();
void g.clas();"""
    (found,) = errors_in(tools, script)
    assert found.startswith(
        "script.ts:3 TS2551 Property 'clas' does not exist on type 'GTools'. Did you mean 'class'?"
    )


def test_http_and_workflows_have_types_of_their_own() -> None:
    order = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    tools = [pinned("workflows.order", order), pinned("workflows.order.start", order)]
    script = """import { http } from "rewind:tools";
import { order } from "rewind:workflows";
export default async () => {
  const page = await http.get("https://example.com", { headers: { accept: "x" }, query: { a: 1 }, timeout: "5s" });
  const { id }: { id: string } = await order.start({ sku: "a" });
  const made = await http.request({ url: "https://example.com", method: "POST", json: { id } });
  return [page.status + 1, page.ok, made.json.anything, made.headers["x"], await order({ sku: "b" })];
};
void http.get();
void order({});"""
    found = errors_in(tools, script, http=True)
    assert [error.split(" ")[0] for error in found] == ["script.ts:9", "script.ts:10"]
    assert errors_in([], 'import { http } from "rewind:tools"; void http;')[0].startswith(
        "script.ts:1 TS2305"
    )


def test_case_scripts_check_with_and_without_their_schemas() -> None:
    for folder in sorted((OWN / "scripts").glob("*/")):
        schemas = json.loads((folder / "tools.json").read_text())["schemas"]
        script = (folder / "script.ts").read_text()
        full = [
            pinned(
                name,
                found["inputSchema"],
                **({"output_schema": found["outputSchema"]} if "outputSchema" in found else {}),
            )
            for name, found in schemas.items()
        ]
        bare = [pinned(name, {"type": "object"}) for name in schemas]
        assert (folder.name, errors_in(full, script)) == (folder.name, [])
        # Callbacks' parameters are `any` then, and sets of results unknown: warnings to the checker.
        warned = r"TS7006|TS7031|TS2347|TS18046|'unknown(\[\])?' is not assignable"
        left = [error for error in errors_in(bare, script) if not re.search(warned, error)]
        assert (folder.name, left) == (folder.name, [])
