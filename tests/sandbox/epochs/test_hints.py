"""An error that ends a run says what to write instead; a script that catches it sees the engine's message."""

import pytest

from tests.sandbox.isolate.conftest import Run

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = ("shop.price", "shop.list_orders", "echo", "workflows.onboard")


async def message(run: Run, body: str, *, head: str = "", tools: tuple[str, ...] = TOOLS) -> str:
    world = await run(f"{head}\nexport default async function main() {{ {body} }}", tools=tools)
    text: str = world.error["message"]
    return text


@pytest.mark.parametrize(
    ("body", "first", "hint"),
    [
        ("await fetch('x');", "fetch is not defined", "There is no network in a script: call a tool"),
        ("process.exit();", "process is not defined", "no process and no environment"),
        ("require('fs');", "require is not defined", "no module system"),
        ("Buffer.from('x');", "Buffer is not defined", "TextEncoder"),
        ("fs.readFileSync('x');", "fs is not defined", "There is no file system"),
        ("document.body;", "document is not defined", "no browser"),
        ("setImmediate(() => {});", "setImmediate is not defined", "setTimeout(f, 0)"),
        ("new WeakRef({});", "WeakRef is not defined", "replayed"),
        ("Temporal.Now.instant();", "Temporal is not defined", "use Date"),
        ("sleep(1);", "sleep is not defined", 'import { sleep } from "rewind";'),
        ("shop.price({});", "shop is not defined", 'import { shop } from "rewind:tools";'),
        ("echo({});", "echo is not defined", 'import { echo } from "rewind:tools";'),
        ("onboard({});", "onboard is not defined", 'import { onboard } from "rewind:workflows";'),
        (
            "new Function('return 1');",
            "Code generation from strings disallowed for this context",
            "JSON.parse",
        ),
        ("(crypto as any).createHash('md5');", "crypto.createHash is not a function", "subtle.digest"),
    ],
)
async def test_what_does_not_exist(run: Run, body: str, first: str, hint: str) -> None:
    found = await message(run, body)
    assert found.split("\n")[0] == first
    assert hint in found.split("\n")[1]


async def test_http_is_named_only_where_the_toolset_has_it(run: Run) -> None:
    assert "http.get" not in await message(run, "fetch('x');")
    assert "http.get(url)" in await message(run, "fetch('x');", tools=("http.request",))


@pytest.mark.parametrize(
    ("head", "body", "hint"),
    [
        (
            'import { shop } from "rewind:tools";',
            "shop.prise({});",
            "There is no shop.prise: did you mean shop.price?",
        ),
        (
            'import { shop as s } from "rewind:tools";',
            "s.listOrders({});",
            "There is no shop.listOrders: did you mean s.list_orders?",
        ),
        (
            'import * as tools from "rewind:tools";',
            "tools.shop.pryce({});",
            "There is no shop.pryce: did you mean shop.price?",
        ),
        (
            'import { shop } from "rewind:tools";',
            "shop.zzz({});",
            "There is no shop.zzz: shop has price, list_orders",
        ),
    ],
)
async def test_a_wrong_tool_name_gets_the_nearest(run: Run, head: str, body: str, hint: str) -> None:
    assert (await message(run, body, head=head)).split("\n")[1] == hint


async def test_what_http_and_a_workflow_have(run: Run) -> None:
    found = await message(
        run, "http.fetch('x');", head='import { http } from "rewind:tools";', tools=("http.request",)
    )
    assert "There is no http.fetch: there are http.request, http.get," in found
    tools = ("workflows.onboard", "workflows.onboard.start")
    found = await message(
        run,
        "(begin as any).stat({});",
        head='import { onboard as begin } from "rewind:workflows";',
        tools=tools,
    )
    assert found.split("\n")[1] == "There is no workflows.onboard.stat: did you mean begin.start?"


async def test_a_wrong_import_gets_the_nearest(run: Run) -> None:
    found = await message(run, "shopp;", head='import { shopp } from "rewind:tools";')
    assert found == '"rewind:tools" has no export "shopp": did you mean shop? It has echo, shop, probe'


@pytest.mark.parametrize(
    "body",
    [
        "null!.x;",
        "nothing_like_it();",
        "({} as any).a.b();",
        "throw new TypeError('x is not a function');",
        "throw new TypeError('a'.repeat(5_000_000) + '.b is not a function');",
        "throw new ReferenceError('fetch is not defined, he said');",
    ],
)
async def test_other_errors_are_left_as_they_are(run: Run, body: str) -> None:
    assert "\n" not in await message(run, body)


async def test_the_script_itself_sees_the_engines_message(run: Run) -> None:
    world = await run(
        "export default async function main() { try { fetch('x') } catch (e: any) { return [e.message, typeof (globalThis as any).fetch, typeof fetch] } }"
    )
    assert world.output == ["fetch is not defined", "undefined", "undefined"]
