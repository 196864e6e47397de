"""The real type-checker: what it accepts, what it knows of main, what bombs cost, what its process cannot do."""

import asyncio
import copy
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import uvloop

from sandbox.compiler.check import Checker, TypeReport
from sandbox.compiler.diagnostics import nested_too_deeply, readable
from sandbox.compiler.toolset import NO_TOOLS, Toolset, toolset_of
from sandbox.compiler.tsc import NICE, Tsc
from sandbox.isolate.confine import ON
from sandbox.journal.ids import Epoch
from tests.e2e.stack import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = Path(__file__).parents[2] / "cases"
SCRIPTS = sorted(CASES.glob("scripts/*/script.ts"))
BOMBS = sorted(CASES.glob("type-bombs/*.ts"))
E1 = Epoch(1)


def case_tools(folder: Path, *, with_results: bool) -> Toolset:
    schemas = json.loads((folder / "tools.json").read_text())["schemas"]
    tools = []
    for name, known in schemas.items():
        tool = {"name": name, "input_schema": known["inputSchema"], "output_schema": known["outputSchema"]}
        if not with_results:
            tool |= {"input_schema": {"type": "object"}}
            del tool["output_schema"]
        tools.append(tool)
    return toolset_of(f"{folder.name} {with_results}", tools)


async def errors(checker: Checker, source: str, toolset: Toolset = NO_TOOLS) -> list[str]:
    report = await checker.check(source, toolset, epoch=E1, tenant="tests")
    assert not report.too_complex
    return [one.code for one in readable(source, toolset, report.diagnostics, []) if one.severity == "error"]


@pytest.mark.parametrize("schemas", ["all", "none"])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
async def test_case_scripts_have_no_errors(checker: Checker, path: Path, schemas: str) -> None:
    assert (
        await errors(checker, path.read_text(), case_tools(path.parent, with_results=schemas == "all")) == []
    )


UNKNOWNS = """import { g } from "rewind:tools";
export default async function main(input: { names: any }) {
  const names: string[] = [...new Set(input.names)];
  for (const a of new Set(input.names)) await g.echo({ a });
  return names;
}"""


@pytest.mark.parametrize(("results", "severity"), [("with", "error"), ("without", "warning")])
async def test_mismatches_of_unknown_are_warnings_where_results_have_no_schema(
    checker: Checker, results: str, severity: str
) -> None:
    """A set of an `any` is a set of unknowns, in TypeScript's eyes. Other mismatches stay errors."""
    text = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = [
        {"name": "g.echo", "input_schema": text, **({"output_schema": text} if results == "with" else {})}
    ]
    toolset = toolset_of(f"unknowns {results}", tools)
    report = await checker.check(UNKNOWNS, toolset, epoch=E1, tenant="tests")
    found = [(one.code, one.severity) for one in readable(UNKNOWNS, toolset, report.diagnostics, [])]
    assert found == [("TS2322", severity), ("TS2322", severity)]
    wrong = UNKNOWNS.replace("{ a }", "{ a: 5 }")
    assert "TS2322" in await errors(checker, wrong, toolset)


@pytest.mark.parametrize(
    ("comment", "code"),
    [
        ("// @ts-nocheck\n", "TS2322"),
        ("// @ts-ignore\n", "TS2322"),
        ("// @ts-expect-error\n", "TS2322"),
        ("/* @ts-nocheck */\n", "TS2322"),
        ('/// <reference lib="dom" />\n', "TS2322"),
    ],
)
async def test_comments_do_not_switch_it_off(checker: Checker, comment: str, code: str) -> None:
    assert await errors(checker, f"{comment}export const x: string = 5;\nexport default async () => x;") == [
        code
    ]


@pytest.mark.parametrize(
    "source",
    [
        '/// <reference path="/etc/passwd" />\nexport default async () => root;',
        '/// <reference types="node" />\nexport default async () => process;',
        '/// <reference lib="dom" />\nexport default async () => document;',
        'import type { x } from "/etc/passwd";\nexport default async () => 1 as unknown as x;',
        'type A = import("../../../../etc/passwd").A;\nexport default async () => 1 as unknown as A;',
    ],
)
async def test_nothing_outside_can_be_named(checker: Checker, source: str) -> None:
    assert await errors(checker, source)


async def test_a_script_says_nothing_about_the_next(checker: Checker) -> None:
    leak = "declare global { interface Array<T> { leaked: 1 } var leaked: number }\nexport default async () => 1;"
    assert await errors(checker, leak) == []
    assert await errors(checker, "export default async () => [[1].leaked, leaked];") == ["TS2339", "TS2304"]


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        ("", True),
        ("input: any", True),
        ("input: string", {"type": "string"}),
        ("input?: number", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
        ("input: boolean | null", {"anyOf": [{"type": "boolean"}, {"type": "null"}]}),
        ('input: "a" | "b"', {"enum": ["a", "b"]}),
        ("input: 5", {"const": 5}),
        ("input: string[]", {"type": "array", "items": {"type": "string"}}),
        (
            "input: [string, number?]",
            {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "number"}],
                "minItems": 1,
                "maxItems": 2,
            },
        ),
        ("input: Record<string, number>", {"type": "object", "additionalProperties": {"type": "number"}}),
        (
            "{ repo, days = 30 }: { repo: string; days?: number }",
            {
                "type": "object",
                "properties": {"repo": {"type": "string"}, "days": {"type": "number"}},
                "required": ["repo"],
            },
        ),
        (
            "input: { a: string | undefined; when: Date; f(): void }",
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "when": True, "f": True},
                "required": ["when", "f"],
            },
        ),
        (
            "input: { a: 1 } & { b: 2 }",
            {
                "type": "object",
                "properties": {"a": {"const": 1}, "b": {"const": 2}},
                "required": ["a", "b"],
            },
        ),
        (
            "input: Node",
            {
                "$ref": "#/$defs/T1",
                "$defs": {
                    "T1": {
                        "type": "object",
                        "properties": {"next": {"$ref": "#/$defs/T1"}},
                    }
                },
            },
        ),
    ],
)
async def test_the_schema_of_the_input(checker: Checker, parameter: str, schema: Any) -> None:
    source = (
        f"interface Node {{ next?: Node }}\nexport default async function main({parameter}) {{ return 1; }}"
    )
    report = await checker.check(source, NO_TOOLS, epoch=E1, tenant="tests")
    assert report.types.input_schema == schema
    assert report.types.output_type == "number"
    assert report.types.output_schema is True  # it was not asked for


@pytest.mark.parametrize(
    ("main", "schema"),
    [
        ("main() { return 1; }", {"type": "number"}),
        ("main() {}", {"type": "null"}),
        (
            "main(): Promise<string | undefined> { return undefined; }",
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            "main() { return { when: new Date(), tags: ['a'] }; }",
            {
                "type": "object",
                "properties": {"when": True, "tags": {"type": "array", "items": {"type": "string"}}},
                "required": ["when", "tags"],
            },
        ),
        ("main(): Promise<any> { return 1; }", True),
        (
            "main(): Promise<Node> { return {}; }",
            {
                "$ref": "#/$defs/T1",
                "$defs": {"T1": {"type": "object", "properties": {"next": {"$ref": "#/$defs/T1"}}}},
            },
        ),
    ],
)
async def test_the_schema_of_the_output(checker: Checker, main: str, schema: Any) -> None:
    source = f"interface Node {{ next?: Node }}\nexport default async function {main}"
    report = await checker.check(source, NO_TOOLS, epoch=E1, tenant="tests", output=True)
    assert report.diagnostics == []
    assert report.types.output_schema == schema


@pytest.mark.parametrize(
    ("source", "types"),
    [
        ("export default async (input: { a: 1 }) => input.a", ("{ a: 1; }", "1")),
        ("async function main(input: string) { return [input] }", ("string", "string[]")),
        ("export const main = (input: string) => input", ("string", "string")),
        ("const go = async (x: number) => x;\nexport { go as default };", ("number", "number")),
        (
            "export default function (x: string): Promise<void> { return Promise.resolve() }",
            ("string", "void"),
        ),
        ("const x = 1;", (None, None)),
    ],
)
async def test_the_types_of_main(checker: Checker, source: str, types: tuple[str | None, str | None]) -> None:
    report = await checker.check(source, NO_TOOLS, epoch=E1, tenant="tests")
    assert (report.types.input_type, report.types.output_type) == types


async def test_positions_count_utf16_units(checker: Checker) -> None:
    source = 'const s = "é漢😀"; const n: number = "😀";\nexport default async () => [s, n];'
    report = await checker.check(source, NO_TOOLS, epoch=E1, tenant="tests")
    (found,) = readable(source, NO_TOOLS, report.diagnostics, [])
    assert (found.line, found.column, found.end_column) == (1, 25, 26)


@pytest.mark.parametrize("path", BOMBS, ids=lambda path: path.stem)
async def test_type_bombs_cost_their_author_a_diagnostic(checker: Checker, path: Path) -> None:
    source = path.read_text()
    began = time.monotonic()
    deep = nested_too_deeply(source)
    report = await checker.check(source, NO_TOOLS, epoch=E1, tenant="author") if deep is None else None
    took_s = time.monotonic() - began
    print(f"{path.stem}: {took_s:.2f} s")
    assert took_s < 3.5
    assert deep is not None or (report is not None and (report.too_complex or report.diagnostics))
    assert await errors(checker, "export default async () => 1;") == []


async def test_a_string_that_doubles_ends_at_the_memory_limit(checker: Checker) -> None:
    source = (
        "type D<S extends string, N extends 0[]> = N['length'] extends 30 ? S : D<`${S}${S}`, [...N, 0]>;\n"
        "const x: D<'aaaaaaaaaaaaaaaa', []> = 1;\nexport default async () => x;"
    )
    assert (await checker.check(source, NO_TOOLS, epoch=E1, tenant="author")).too_complex


@pytest.mark.parametrize("surges", ["first", "second"])
async def test_two_tenants_bombs_hold_up_nobody_else(surges: str) -> None:
    """They surge together, for the first time and again: another's checks are done before the bombs are."""
    async with Checker() as checker:
        if surges == "second":
            await asyncio.gather(*_bombs(checker))
        bombs = _bombs(checker)
        await _beside(checker, bombs)
        assert all(report.too_complex for report in await asyncio.gather(*bombs))


def _bombs(checker: Checker) -> list[asyncio.Task[TypeReport]]:
    bomb = (CASES / "type-bombs" / "fib.ts").read_text()
    return [
        asyncio.create_task(checker.check(bomb, NO_TOOLS, epoch=E1, tenant=tenant))
        for tenant in ("hostile", "evil", "hostile", "evil")
    ]


async def _beside(checker: Checker, bombs: list[asyncio.Task[TypeReport]]) -> None:
    await asyncio.sleep(0)  # all have taken, or wait for, a child
    took = []
    for _ in range(5):
        began = time.monotonic()
        assert await errors(checker, "export default async () => 1;") == []
        took.append(time.monotonic() - began)
    assert not any(task.done() for task in bombs)
    print(f"another tenant's checks beside bombs: {max(took) * 1000:.0f} ms at most")


async def test_a_check_that_takes_long_yields_to_the_others(checker: Checker) -> None:
    """Until it is killed it has what nobody else wants."""
    bomb = asyncio.create_task(_bombs_of_one(checker))

    async def yielding() -> list[Tsc]:
        return [seat.tsc for seat in checker._all if seat.tsc is not None and seat.tsc.yields]

    slow = await eventually(yielding, within_s=20, what="a check that yields")
    assert not bomb.done()
    assert os.getpriority(os.PRIO_PROCESS, slow[0].pid) == NICE
    tasks = [int(task.name) for task in Path(f"/proc/{slow[0].pid}/task").iterdir()]
    assert {os.getpriority(os.PRIO_PROCESS, task) for task in tasks} == {NICE}
    assert (await bomb).too_complex


async def _bombs_of_one(checker: Checker) -> TypeReport:
    bomb = (CASES / "type-bombs" / "fib.ts").read_text()
    return await checker.check(bomb, NO_TOOLS, epoch=E1, tenant="author")


async def test_a_child_that_died_is_replaced(checker: Checker) -> None:
    for seat in checker._all:
        assert seat.tsc is not None
        seat.tsc.kill()
    assert await errors(checker, "export default async () => 1;") == []


async def test_a_child_that_dies_of_others_is_nobodys_fault(checker: Checker) -> None:
    """It is killed while it works: the check is done again in another."""
    assert await errors(checker, "export default async () => 1;") == []
    task = asyncio.create_task(errors(checker, "export default async () => 2;"))
    await asyncio.sleep(0)
    for seat in checker._all:
        assert seat.tsc is not None
        if not seat.tsc.dead:
            os.kill(seat.tsc.pid, 9)
    assert await task == []


async def test_a_child_that_was_killed_between_checks_is_replaced() -> None:
    """On the loop of the product, which refuses to write to a pipe that is closed. New ones, so that none was used."""

    async def check_after_kills() -> None:
        async with Checker() as checker:
            for _ in range(2):
                for seat in checker._all:
                    assert seat.tsc is not None
                    if not seat.tsc.dead:
                        os.kill(seat.tsc.pid, 9)
                    await seat.tsc._process.wait()
                for _ in checker._all:
                    assert await errors(checker, "export default async () => 1;") == []

    await asyncio.to_thread(uvloop.run, check_after_kills())


async def test_its_process_is_confined(checker: Checker) -> None:
    """As the children that run scripts, as far as this host allows."""
    assert await errors(checker, "export default async () => 1;") == []
    tsc = next(seat.tsc for seat in checker._all if seat.tsc is not None and not seat.tsc.dead)
    own = {layer for layer, state in checker.confinement.items() if state == ON}
    limits = Path(f"/proc/{tsc.pid}/limits").read_text()
    assert "limits" in own
    assert f"Max address space         {1024**3}" in limits
    assert "Max file size             0" in limits
    files = [str(one.readlink()) for one in Path(f"/proc/{tsc.pid}/fd").iterdir()]
    assert all(name.startswith(("pipe:", "/dev/null", "anon_inode:", "socket:")) for name in files), files
    if "namespaces" in own:
        assert Path(f"/proc/{tsc.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    if "seccomp" in own:
        assert "Seccomp:\t2" in Path(f"/proc/{tsc.pid}/status").read_text()


async def test_many_toolsets_share_a_child(checker: Checker) -> None:
    tools = [{"name": "g.t0", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}]
    for number in range(60):
        tools[0]["name"] = f"g.t{number}"
        toolset = toolset_of(str(number), copy.deepcopy(tools))
        call = f'import {{ g }} from "rewind:tools";\nexport default async () => g.t{number}({{}});'
        assert await errors(checker, call, toolset) == []
        assert await errors(checker, call.replace(f"t{number}", "t_none"), toolset) == ["TS2339"]
