"""Stripping through the real compiler process: positions kept, module statements rewritten, refusals that help."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.isolate.pool import ChildPool
from sandbox.isolate.process import NICE
from tests.e2e.stack import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = Path(__file__).parents[2] / "cases"
SCRIPTS = [*sorted(CASES.glob("scripts/*/script.ts")), *sorted(CASES.glob("hostile/*.ts"))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=1) as children:
        yield children


async def compiled(pool: ChildPool, source: str) -> Compiled:
    result = await pool.strip(source, 1)
    assert isinstance(result, Compiled), result
    return result


async def refused(pool: ChildPool, source: str) -> list[Diagnostic]:
    result = await pool.strip(source, 1)
    assert isinstance(result, list)
    return result


@pytest.mark.parametrize(
    "path", SCRIPTS, ids=lambda path: path.stem if path.stem != "script" else path.parent.name
)
async def test_positions_are_kept(pool: ChildPool, path: Path) -> None:
    source = path.read_text()
    js = (await compiled(pool, source)).js
    assert len(js) == len(source)
    changed = [(a, b) for a, b in zip(source, js, strict=True) if a != b and b not in " ;"]
    assert changed == []
    assert [i for i, c in enumerate(source) if c == "\n"] == [i for i, c in enumerate(js) if c == "\n"]


@pytest.mark.parametrize(
    ("source", "js", "main"),
    [
        ("export default async (x: number) => x", "var    main  = async (x        ) => x", "main"),
        ("export default async function go() {}", "               async function go() {}", "go"),
        ("export default function () {}\n(1)", "var    main  = function () {};\n(1)", "main"),
        ("export\n  default\n (x) => x", "var   \n  main  =\n (x) => x", "main"),
        ("const go = () => 1;\nexport default go", "const go = () => 1;\n;                ", "go"),
        ("function go() {}\nexport { go as default };", "function go() {}\n;                        ", "go"),
        ("async function main() {}", "async function main() {}", "main"),
        (
            "export const main = async (): Promise<void> => {}",
            "       const main = async ()                => {}",
            "main",
        ),
        ("const main = 1; export default () => main", "const main = 1; var    $main = () => main", "$main"),
        (
            "const a = 1\nimport 'rewind'\n;[a].map(main); function main() {}",
            "const a = 1\n;              \n [a].map(main); function main() {}",
            "main",
        ),
        (
            "export function help() {}\nexport default () => help()",
            "       function help() {}\nvar    main  = () => help()",
            "main",
        ),
        (
            "export default function main(a: string): void\nexport default function main(a: any) {}",
            None,
            "main",
        ),
        ("export interface A {}\nexport type B = 1;\nexport default () => 1", None, "main"),
        ("export default (() => 1) satisfies unknown", None, "main"),
    ],
)
async def test_exports(pool: ChildPool, source: str, js: str | None, main: str) -> None:
    result = await compiled(pool, source)
    assert result.main == main
    if js is not None:
        assert result.js == js


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("export default async function main() {\n  return 1;\n}", (2, 3)),
        ("export default async function main() {\n  if (x) return 1;\n  return 2;\n}", (1, 1)),
        ("export default async () =>\n  5", (2, 3)),
        ("const main = async () => { [1].map(() => { return 2 });\n return 3 }", (2, 2)),
        ("const a = 1;\nexport async function main() {}", (2, 1)),
        ("function go() {\n return 1 }\nexport { go as default }", (2, 2)),
    ],
)
async def test_where_main_gives_its_result(pool: ChildPool, source: str, position: tuple[int, int]) -> None:
    result = await compiled(pool, source)
    assert (result.line, result.column) == position


async def test_imports(pool: ChildPool) -> None:
    source = (
        'import { sleep as pause, Duration, type X } from "rewind";\n'
        'import type { Y } from "rewind:tools";\n'
        'import * as tools from "rewind:tools";\n'
        'import { github, Unused, Shape } from "rewind:tools";\n'
        'import { onboard } from "rewind:workflows";\n'
        "let d: Duration; let s: Shape;\n"
        "export default () => [pause, tools, github, onboard];"
    )
    result = await compiled(pool, source)
    assert [(p.module, p.name, p.local, p.line, p.column) for p in result.params] == [
        ("rewind", "sleep", "pause", 1, 10),
        ("rewind:tools", "*", "tools", 3, 8),
        ("rewind:tools", "github", "github", 4, 10),
        ("rewind:workflows", "onboard", "onboard", 5, 10),
    ]
    assert Compiled.from_json(result.to_json()) == result


@pytest.mark.parametrize(
    ("source", "code", "position", "hint"),
    [
        ("enum A { X, Y }\nexport default () => A", "enum_not_supported", (1, 1), "as const; type A ="),
        ("namespace N { export const a = 1 }\nexport default () => N", "namespace_not_supported", (1, 1), "plain object"),
        ("class A { constructor(private x: number) {} }\nexport default () => A", "parameter_property_not_supported", (1, 23), "this.x = x"),
        ("export default () => <number>1", "angle_assertion_not_supported", (1, 22), "value as Type"),
        ("@f class A {}\nexport default () => A", "decorator_not_supported", (1, 1), "call a function"),
        ('import fs = require("fs")\nexport default () => fs', "import_equals_not_supported", (1, 1), "import {"),
        ("export = 1", "export_equals_not_supported", (1, 1), "export default"),
        ('import fs from "node:fs"\nexport default () => fs', "unknown_module", (1, 16), "call a tool"),
        ('import x from "./lib"\nexport default () => x', "unknown_module", (1, 15), "one file"),
        ('import _ from "lodash"\nexport default () => _', "unknown_module", (1, 15), "packages"),
        ('export default async () => import("fs")', "dynamic_import_not_supported", (1, 28), "import at the top"),
        ("export default () => import.meta.url", "import_meta_not_supported", (1, 22), "remove"),
        ('import r from "rewind"\nexport default () => r', "no_default_export", (1, 8), "import * as r"),
        ('import { slep } from "rewind"\nexport default () => slep', "unknown_export", (1, 10), "sleep"),
        ('export * from "rewind"\nexport default () => 1', "reexport_not_supported", (1, 1), "remove"),
        ("const x = 1", "missing_main", (1, 1), "export default async function main"),
        ("const main = 1", "missing_main", (1, 1), "export default async function main"),
        ("export default class A {}", "missing_main", (1, 1), "export default async function main"),
        ("export default { async main() {} }", "missing_main", (1, 1), "export default async function main"),
        ("export default ([1] as any)", "missing_main", (1, 1), "export default async function main"),
        ("export default function* () { yield 1 }", "main_is_a_generator", (1, 24), "for await"),
        ("async function* main() {}", "main_is_a_generator", (1, 15), "for await"),
        ("const run = (function* () {});\nexport default run", "main_is_a_generator", (1, 22), "for await"),
        ("class A { accessor x = 1 }\nexport default () => A", "accessor_not_supported", (1, 11), "`get` and `set`"),
        ("", "missing_main", (1, 1), "export default async function main"),
        ("return 1\nexport default () => 1", "TS1108", (1, 1), "main"),
        ("export default (a, b) => a<!--b", "html_comment_not_supported", (1, 27), "spaces"),
        ("export default function main( {", "TS1005", (1, 32), None),
        ("export default () => { let é = 1; let é = 2 }", "syntax_error", (1, 39), "another name"),
        ("export default () => { await x }", "syntax_error", (1, 24), "async"),
        ("export default () => { const x; }", "syntax_error", (1, 30), "value"),
        ("export default () => { with (a) {} }", "syntax_error", (1, 24), None),
        ('import { sleep } from "rewind"\nconst sleep = 1\nexport default () => sleep', "syntax_error", (2, 7), "imports count"),
        ("#!/usr/bin/env node\nexport default () => 1", "syntax_error", (1, 1), None),
        ("const x = " + "[" * 100 + "]" * 100 + "\nexport default () => x", "nested_too_deeply", (1, 75), "split"),
        ("export default () => " + "1+" * 60_000 + "1", "nested_too_deeply", (1, 1), "split"),
        ("export default () => " + "f(" * 3_000 + ")" * 3_000, "nested_too_deeply", None, "split"),
        ("export default () => 1 //" + "x" * 262_144, "script_too_large", (1, 1), "input"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.islower() and " " not in value and len(value) < 40 else None,
)  # fmt: skip
async def test_refusals(
    pool: ChildPool, source: str, code: str, position: tuple[int, int] | None, hint: str | None
) -> None:
    first = (await refused(pool, source))[0]
    assert (first.severity, first.code) == ("error", code)
    if position is not None:
        assert (first.line, first.column) == position
    assert first.message
    assert (first.end_line, first.end_column) >= (first.line, first.column)
    if hint is not None:
        assert first.hint is not None
        assert hint in first.hint
    if code not in {"script_too_large"} and source:
        assert "^" in first.frame
    assert Diagnostic.from_json(first.to_json()) == first


async def test_several_errors_are_all_told(pool: ChildPool) -> None:
    codes = [found.code for found in await refused(pool, "enum A {}\nenum B {}\nconst x = <any>1")]
    assert sorted(codes) == [
        "angle_assertion_not_supported",
        "enum_not_supported",
        "enum_not_supported",
        "missing_main",
    ]


async def test_lone_surrogates_are_refused_by_name(pool: ChildPool) -> None:
    (found,) = await refused(pool, "const a = 1;\nconst b = '\ud800';\nexport default () => b")
    assert (found.code, found.line) == ("lone_surrogate", 2)


async def test_a_script_cannot_reach_the_stripper(pool: ChildPool) -> None:
    await compiled(pool, "Object.prototype.x = 1; JSON.parse = null!; export default () => 1")
    assert (await compiled(pool, "export default () => 2")).main == "main"


async def test_a_dead_compiler_is_replaced(pool: ChildPool) -> None:
    await compiled(pool, "export default () => 1")
    for compiler in pool._compilers.processes:
        compiler.kill()
    assert (await compiled(pool, "export default () => 2")).main == "main"


async def test_types_are_not_evaluated(pool: ChildPool) -> None:
    bomb = (
        "type A<N extends number, T extends unknown[] = []> = T['length'] extends N ? T : A<N, [...T, 1]>;\n"
    )
    assert (await compiled(pool, bomb + "let x: A<999999>;\nexport default () => 1")).main == "main"


PARSER_BOMB = "export default () => " + "async(" * 24 + "1" + ")" * 24
"""Each of these may begin an arrow function, which the parser tries: twice the time for every other one."""


async def test_a_script_that_takes_the_parser_for_ever_holds_up_nobody_else(pool: ChildPool) -> None:
    """Of two tenants at once, the first time and again."""
    await compiled(pool, "export default () => 1")
    for _ in range(2):
        bombs = [asyncio.create_task(pool.strip(PARSER_BOMB, 1, tenant=tenant)) for tenant in ("a", "b")]
        await asyncio.sleep(0)
        took = []
        for number in range(5):
            began = time.monotonic()
            result = await pool.strip(f"export default () => {number}", 1, tenant="c")
            took.append(time.monotonic() - began)
            assert isinstance(result, Compiled)
        assert not all(bomb.done() for bomb in bombs)
        print(f"another tenant's scripts: {max(took) * 1000:.0f} ms at most")
        for bomb in bombs:
            (found,) = await refused_as(bomb)
            assert found.code == "too_complex"


async def test_a_slow_one_lets_the_others_go_first(pool: ChildPool) -> None:
    await compiled(pool, "export default () => 1")
    bomb = asyncio.create_task(pool.strip(PARSER_BOMB, 1, tenant="slow"))

    async def yielding() -> bool:
        pids = [compiler.pid for compiler in pool._compilers.processes if not compiler.dead]
        return NICE in {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids}

    await eventually(yielding, within_s=20, what="a process that yields")
    assert not bomb.done()
    assert [one.code for one in await refused_as(bomb)] == ["too_complex"]


async def refused_as(task: "asyncio.Task[Compiled | list[Diagnostic]]") -> list[Diagnostic]:
    result = await task
    assert isinstance(result, list)
    return result
