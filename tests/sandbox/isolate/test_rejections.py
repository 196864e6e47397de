"""Promises that nobody watches: judged after each event's drain, by Node's rule."""

import pytest

from tests.sandbox.isolate.conftest import Run

pytestmark = pytest.mark.asyncio(loop_scope="module")

HANDLED = {
    "caught some microtasks later": """
        const p = Promise.reject(new Error("late"));
        await null; await null;
        p.catch(() => {});""",
    "all with two rejections": """
        await Promise.all([Promise.reject(new Error("a")), Promise.reject(new Error("b"))]).catch(() => {});""",
    "void p.catch()": "void Promise.reject(new Error('x')).catch(() => {});",
    "loser of a race": """
        await Promise.race([1, Promise.reject(new Error("loser"))]);""",
    "allSettled": "await Promise.allSettled([Promise.reject(new Error('x'))]);",
    "reject after resolve": "new Promise((ok, no) => { ok(1); no(new Error('x')); });",
    "async generator, caught": """
        async function* g() { yield 1; throw new Error("g"); }
        try { for await (const _ of g()) { /* all */ } } catch {}""",
    "subclass, caught": """
        class P extends Promise<number> {}
        P.reject(new Error("x")).catch(() => {});""",
    "tool that fails, caught": "await probe.fail({ message: 'x' }).catch(() => {});",
}

UNHANDLED = {
    "async function never awaited": "async function f() { throw new Error('boom') }\n f();",
    "then without catch": "Promise.reject(new Error('boom')).then(() => {});",
    "finally only": "Promise.reject(new Error('boom')).finally(() => {});",
    "throw in a then handler": "Promise.resolve().then(() => { throw new Error('boom') });",
    "in a timer callback": """
        setTimeout(() => { Promise.reject(new Error("boom")) }, 10);
        await sleep(20);""",
    "after an await, never awaited": """
        (async () => { await probe.echo({}); throw new Error("boom"); })();
        await sleep(20);""",
    "subclass": "class P extends Promise<number> {}\n P.reject(new Error('boom'));",
    "awaited one event too late": """
        const p = probe.fail({ message: "boom" });
        await sleep(5);
        await p;""",
}


@pytest.mark.parametrize("body", HANDLED.values(), ids=HANDLED.keys())
async def test_handled(run: Run, body: str) -> None:
    world = await run(_script(body))
    assert world.output == "done"


@pytest.mark.parametrize("body", UNHANDLED.values(), ids=UNHANDLED.keys())
async def test_unhandled(run: Run, body: str) -> None:
    world = await run(_script(body))
    assert world.error["message"] == "boom"
    assert "rejected without a handler" in world.error["stack"]


async def test_a_forgotten_await_of_a_failing_tool_names_the_line_of_the_call(run: Run) -> None:
    world = await run(
        'import { probe } from "rewind:tools";\n'
        "export default async function main() {\n"
        "  probe.fail({ message: 'nobody listens' });\n"
        "}\n"
    )
    error = world.error
    assert (error["name"], error["message"], error["code"]) == ("ToolError", "nobody listens", "tool_failed")
    assert (error["line"], error["column"]) == (3, 9)
    assert error["stack"].startswith("ToolError: nobody listens\n    at main (script.ts:3:9)")


async def test_an_error_thrown_in_a_timer_fails_the_run(run: Run) -> None:
    world = await run(_script("setTimeout(() => { throw new Error('in a timer') }, 5); await sleep(60);"))
    assert world.error["message"] == "in a timer"
    assert "nothing could catch" in world.error["stack"]


async def test_many_handled_rejections_leave_nothing_behind(run: Run) -> None:
    world = await run(
        _script("for (let i = 0; i < 3000; i++) await Promise.reject(new Error(String(i))).catch(() => {});")
    )
    assert world.output == "done"


async def test_an_unhandled_rejection_after_the_return_turns_the_end_into_failed(run: Run) -> None:
    world = await run(
        'import { probe } from "rewind:tools";\n'
        "export default async function main() {\n"
        "  probe.echo({}).then(() => { throw new Error('too late') });\n"
        "  return 1;\n"
        "}\n"
    )
    assert world.error["message"] == "too late"


def _script(body: str) -> str:
    return (
        'import { sleep } from "rewind";\nimport { probe } from "rewind:tools";\n'
        f"export default async function main() {{ {body}\n void sleep; void probe; return 'done'; }}"
    )
