"""Tool calls: numbers, callsites, arguments, failures, aborts, workflows."""

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { sleep, retry, ToolError, CancelledError } from "rewind";\nimport { probe } from "rewind:tools";\n'
MAIN = HEAD + "export default async function main() { void [sleep, retry, ToolError, CancelledError];\n"


def slow(_call: int, _tool: str, args: object) -> Outcome:
    return Outcome(result=args, after_ms=1_000)


async def test_callsites(run: Run) -> None:
    world = await run(
        'import { probe } from "rewind:tools";\n'
        "const helper = (n: number) =>\n"
        "  probe.echo({ n });\n"
        "export default async function main() {\n"
        "  await probe.echo({ n: 1 });\n"
        "  await helper(2);\n"
        "  await Promise.all([3, 4].map((n) => probe.echo({ n })));\n"
        "  await [5].map(async (n) => { await null; return probe\n"
        "    .echo({ n }); })[0];\n"
        "  await Promise.resolve({ n: 6 }).then(probe.echo);\n"
        "}\n"
    )
    sites = [(call["line"], call["column"]) for call in world.of_type("schedule_tool_call")]
    assert sites == [(5, 15), (3, 9), (7, 45), (7, 45), (9, 6), (10, 3)]


async def test_arguments_are_canonical_and_undefined_means_none(run: Run) -> None:
    world = await run(
        MAIN
        + "await probe.echo({ b: 1, a: [undefined, -0], 'é': 1e21 } as any); await probe.echo(undefined as any); }"
    )
    assert [call["args"] for call in world.of_type("schedule_tool_call")] == [
        '{"a":[null,0],"b":1,"é":1e+21}',
        "{}",
    ]


async def test_results_are_plain_data_of_the_realm(run: Run) -> None:
    world = await run(
        MAIN + "const r: any = await probe.echo({ a: [1], o: {} });"
        "return [r.constructor === Object, Array.isArray(r.a), r.a.constructor === Array, Object.isFrozen(r)]; }"
    )
    assert world.output == [True, True, True, False]


async def test_a_failure_is_a_tool_error_with_the_stack_of_the_call(run: Run) -> None:
    def answer(_call: int, _tool: str, _args: object) -> Outcome:
        data = {"limit": 5}
        return Outcome(
            error={"message": "slow down", "code": "rate_limited", "retryable": True, "data": data}
        )

    world = await run(
        MAIN + "try { await probe.echo({}); } catch (e: any) {\n"
        "return [e instanceof ToolError, e instanceof Error, e.name, e.message, e.tool, e.code, e.retryable, e.data, e.stack, String(e)]; } }",
        answer=answer,
    )
    assert world.output == [
        True,
        True,
        "ToolError",
        "slow down",
        "probe.echo",
        "rate_limited",
        True,
        {"limit": 5},
        "ToolError: slow down\n    at main (script.ts:4:19)",
        "ToolError: slow down",
    ]


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        ({"name": "OutcomeUnknownError", "code": None}, ["OutcomeUnknownError", None]),
        ({"name": "CancelledError", "code": None}, ["CancelledError", None]),
        ({"name": "LimitError", "code": None}, ["LimitError", None]),
        ({"name": "Anything", "code": "custom"}, ["ToolError", "custom"]),
    ],
)
async def test_other_failures(run: Run, error: object, seen: list[str]) -> None:
    world = await run(
        MAIN + "return await probe.echo({}).catch((e: any) => [e.constructor.name, e.code]); }",
        answer=lambda _call, _tool, _args: Outcome(error={"message": "m", **error}),
    )
    assert world.output == seen


async def test_a_denied_approval(run: Run) -> None:
    data = {"reason": "too much", "by": "ann", "expired": False}
    world = await run(
        MAIN
        + "return await probe.gated({}).catch((e: any) => [e.name, e.tool, e.reason, e.by, e.expired]); }",
        answer=lambda _call, _tool, _args: Outcome(
            error={"name": "ApprovalDeniedError", "message": "denied", "data": data}
        ),
    )
    assert world.output == ["ApprovalDeniedError", "probe.gated", "too much", "ann", False]


async def test_timeout_goes_with_the_call(run: Run) -> None:
    world = await run(
        MAIN
        + "await probe.echo({}, { timeout: '5s' }); await probe.echo({}, { timeout: 0.2 }); await probe.echo({}); }"
    )
    assert [call.get("timeout_ms") for call in world.of_type("schedule_tool_call")] == [5000, 1, None]


async def test_abort_rejects_at_once_and_the_outcome_still_holds_the_end(run: Run) -> None:
    world = await run(
        MAIN + "const c = new AbortController();\n"
        "const p = probe.echo({}, { signal: c.signal }).catch((e: any) => [e instanceof CancelledError, e.cause, Date.now()]);\n"
        "const began = Date.now(); await sleep(10);\nc.abort('enough'); const [ok, cause, at] = await p; return [ok, cause, at - began]; }",
        answer=slow,
    )
    assert world.output == [True, "enough", 10]
    (cancelled,) = world.of_type("tool_call_cancelled")
    assert (cancelled["call"], cancelled["line"]) == (1, 7)
    assert world.entries[-2]["type"] == "tool_call_completed"


async def test_an_aborted_signal_makes_no_call(run: Run) -> None:
    world = await run(
        MAIN
        + "return await probe.echo({}, { signal: AbortSignal.abort('no') }).catch((e: any) => [e.name, e.cause]); }"
    )
    assert world.output == ["CancelledError", "no"]
    assert world.calls == []


async def test_abort_after_the_outcome_is_nothing(run: Run) -> None:
    world = await run(
        MAIN
        + "const c = new AbortController(); const r = await probe.echo({ n: 1 }, { signal: c.signal }); c.abort(); return r; }"
    )
    assert world.output == {"n": 1}
    assert world.of_type("tool_call_cancelled") == []


async def test_abort_timeout_is_a_durable_timer(run: Run) -> None:
    world = await run(
        MAIN
        + "return await probe.echo({}, { signal: AbortSignal.any([AbortSignal.timeout(50), new AbortController().signal]) })"
        ".catch((e: any) => [e.name, e.cause.name]); }",
        answer=slow,
    )
    assert world.output == ["CancelledError", "TimeoutError"]
    assert [timer["why"] for timer in world.of_type("start_timer")] == ["abort_timeout"]


async def test_an_aborted_call_alone_is_a_deadlock(run: Run) -> None:
    world = await run(
        MAIN
        + "const c = new AbortController(); probe.echo({}, { signal: c.signal }).catch(() => {}); c.abort(); await new Promise(() => {}); }",
        answer=slow,
    )
    assert world.error["name"] == "DeadlockError"


async def test_retry(run: Run) -> None:
    def answer(call: int, _tool: str, args: object) -> Outcome:
        return Outcome(error={"message": f"no {call}"}) if call < 3 else Outcome(result=args)

    world = await run(
        MAIN + "return await retry((n) => probe.echo({ n }), { attempts: 5 }); }", answer=answer
    )
    assert world.output == {"n": 3}
    assert [timer["delay"] for timer in world.of_type("start_timer")] == [1000, 2000]
    assert {timer["line"] for timer in world.of_type("start_timer")} == {4}


async def test_retry_gives_up_by_number_by_choice_and_on_cancel(run: Run) -> None:
    fails = "probe.fail({ message: 'x' })"
    world = await run(
        MAIN
        + "const tries: number[] = []; const t = (f: () => Promise<unknown>) => f().catch((e: Error) => e.name);\n"
        f"const a = await t(() => retry((n) => {{ tries.push(n); return {fails}; }}, {{ backoff: 1 }}));\n"
        f"const b = await t(() => retry((n) => {{ tries.push(n); return {fails}; }}, {{ on: () => false }}));\n"
        "const c = await t(() => retry((n) => { tries.push(n); throw new CancelledError('stop'); }));\n"
        "return [a, b, c, tries]; }"
    )
    assert world.output == ["ToolError", "ToolError", "CancelledError", [1, 2, 3, 1, 1]]


async def test_workflows_are_calls(run: Run) -> None:
    world = await run(
        'import { onboard } from "rewind:workflows";\n'
        "export default async function main() { return [await onboard({ a: 1 }), await onboard.start({ b: 2 })]; }",
        tools=("workflows.onboard", "workflows.onboard.start"),
    )
    assert world.calls == [["workflows.onboard", {"a": 1}], ["workflows.onboard.start", {"b": 2}]]


async def test_tools_without_a_group_and_namespace_imports(run: Run) -> None:
    world = await run(
        'import { ask as inquire } from "rewind:tools";\nimport * as all from "rewind:tools";\n'
        "export default async function main() {\n"
        "  return [await inquire({ n: 1 }), await all.probe.echo({ n: 2 }), Object.keys(all)]; }",
        tools=("ask", "probe.echo"),
    )
    assert world.output == [{"n": 1}, {"n": 2}, ["ask", "probe"]]


async def test_run_tells_who_it_is(run: Run) -> None:
    world = await run(
        'import { run, progress } from "rewind";\n'
        "export default async function main() { progress({ done: 1 });\n"
        "  return [run.id, run.self, run.namespace, run.labels.team, run.deadline.toISOString(), run.parent, Object.isFrozen(run)]; }"
    )
    assert world.output == [world.run, world.run, "acme", "blue", "2026-02-14T09:00:00.000Z", None, True]
    assert world.logs == [["progress", {"done": 1}]]
