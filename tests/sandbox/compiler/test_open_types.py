"""Results whose shape no schema gives: what models write with them is no error, and stays one where shapes are known."""

from typing import Any

import pytest

from sandbox.compiler.check import Checker
from sandbox.compiler.diagnostics import readable
from sandbox.compiler.toolset import toolset_of
from sandbox.isolate.compiled import Diagnostic
from sandbox.journal.ids import Epoch

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = """import {{ g }} from "rewind:tools";
export default async function main(input: {{ day: string }}) {{
  const {{ items, ids, byName }} = await g.list({{}});
  {line}
}}"""

FINE = [
    "const s = new Set(items.map((i) => i.id)); return [...s].sort((a, b) => a.localeCompare(b));",
    "for (const { id } of new Set(items)) console.log(id);",
    "const m = new Map(items.map((i) => [i.id, i])); for (const [k, v] of m) console.log(k.length, v.name);",
    "const m = new Map(items.map((i) => [i.id, i])); const x = m.get(input.day); return [x.name, x?.name, x!.name];",
    "return items.reduce<Record<string, number>>((a, i) => { a[i.id] = 1; return a; }, {});",
    "return items.map<{ id: string }>((i) => ({ id: i.id }));",
    "let sum = 0; for (const x of new Set(ids)) sum += x * 2; return sum;",
    "const o: Record<string, number> = {}; for (const x of new Set(ids)) o[x] = (o[x] ?? 0) + 1; return o;",
    "for (const x of new Set(items)) await g.list({ ...x, again: true });",
    "const [first, ...rest] = [...new Set(ids)]; return first.length + rest[0].size;",
    "return Object.entries(byName).map(([k, v]) => ({ k, n: v.n })).sort((a, b) => b.n - a.n);",
    "return Object.values(byName).flat().filter((x) => x.ok).map((x) => x.id);",
    "const late = Array.from(items, (i) => i.at); return Math.max(...new Set(late)) - Date.parse(input.day);",
    """const pool = async <T, R>(xs: T[], f: (x: T) => Promise<R>) => { const o: R[] = []; for (const x of xs) o.push(await f(x)); return o; };
  return await pool(items, (i) => g.list({ id: i.id }));""",
    "const todo = [...new Set(ids)]; todo[0](); for (const x of todo[0]) console.log(x); return [...todo[0]];",
]
WRONG = [
    ("try { await g.list({}); } catch (e) { return e.message; }", "TS18046"),
    ("const n: number = input.day; return n;", "TS2322"),
    ("return input.year;", "TS2339"),
    ("const o = {}; return o.missing;", "TS2339"),
    ("return [1, 2].reduce<string>((a, n) => a + n, 0);", "TS2345"),
]
OPEN: dict[str, Any] = {
    "none": None,
    "of any shape": {"type": "object"},
    "partly": {
        "type": "object",
        "properties": {"items": {"type": "array"}, "ids": {}, "byName": {"type": "object"}},
        "required": ["items", "ids", "byName"],
    },
}


async def said(checker: Checker, line: str, output: Any, *, http: bool = False) -> list[Diagnostic]:
    tool = {"name": "g.list", "input_schema": {"type": "object"}}
    toolset = toolset_of(
        f"open {output}", [tool if output is None else {**tool, "output_schema": output}], http=http
    )
    source = SCRIPT.format(line=line)
    report = await checker.check(source, toolset, epoch=Epoch(1), tenant="tests")
    return readable(source, toolset, report.diagnostics, [])


@pytest.mark.parametrize("line", FINE)
async def test_what_models_write_with_results_of_any_shape(checker: Checker, line: str) -> None:
    found = await said(checker, line, None)
    assert [one for one in found if one.severity == "error"] == []


@pytest.mark.parametrize("output", OPEN)
async def test_a_use_of_what_is_open_is_a_warning(checker: Checker, output: str) -> None:
    """`any` to the compiler, or `unknown` where a schema leaves a part out: the author is told, and goes on."""
    (found,) = await said(checker, "return [...new Set(ids as any)].map((x) => x.id);", OPEN[output])
    assert (found.severity, found.code) == ("warning", "TS18046")


@pytest.mark.parametrize(("line", "code"), WRONG)
async def test_mistakes_stay_errors(checker: Checker, line: str, code: str) -> None:
    found = await said(checker, line, None)
    assert [one.code for one in found if one.severity == "error"] == [code]


async def test_where_every_shape_is_known_it_is_an_error(checker: Checker) -> None:
    known = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "string"}},
            "ids": {"type": "string"},
            "byName": {"type": "string"},
        },
        "required": ["items", "ids", "byName"],
    }
    line = "return [...new Set(JSON.parse(ids))].map((x) => x.id);"
    assert [one.severity for one in await said(checker, line, known)] == ["error"]
    assert [one.severity for one in await said(checker, line, known, http=True)] == ["warning"]
