"""How runs end: returned, thrown, deadlocked, cancelled; what is still delivered, and what holds the end."""

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { sleep, waitForSignal, CancelledError, DeadlockError } from "rewind";\nimport { probe } from "rewind:tools";\n'
NAMES = "void [sleep, waitForSignal, CancelledError, DeadlockError, probe];"


async def test_a_forgotten_call_holds_the_end_and_its_handlers_run(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {"
        f"{NAMES} probe.echo({{ n: 1 }}).then(() => probe.echo({{ n: 2 }})); return 'early'; }}"
    )
    assert world.output == "early"
    assert world.calls == [["probe.echo", {"n": 1}], ["probe.echo", {"n": 2}]]
    assert world.end["cause"] == world.entries[-2]["seq"]


async def test_timers_and_waits_hold_nothing_open(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {"
        f"{NAMES} setInterval(() => console.log('tick'), 1000); waitForSignal('never'); sleep('1d'); return 1; }}"
    )
    assert world.output == 1
    assert world.logs == []


async def test_the_output_is_that_of_the_moment_of_the_return(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {"
        f"{NAMES} const out = {{ n: 1 }}; probe.echo({{}}).then(() => {{ out.n = 2 }}); return out; }}"
    )
    assert world.output == {"n": 1}


async def test_after_a_throw_nothing_is_delivered_and_begun_calls_hold_the_end(run: Run) -> None:
    def answer(call: int, _tool: str, args: object) -> Outcome:
        return Outcome(result=args, after_ms=call * 10)

    world = await run(
        HEAD
        + "export default async function main() {"
        + NAMES
        + "probe.echo({ n: 1 }); probe.echo({ n: 2 }).then(() => console.log('never heard'));\n"
        "throw new TypeError('no more'); }",
        answer=answer,
    )
    assert (world.error["name"], world.error["message"], world.error["line"]) == ("TypeError", "no more", 4)
    assert world.logs == []
    events = [entry["type"] for entry in world.entries if "cause" not in entry]
    assert events == ["run_started", "tool_call_completed", "tool_call_completed"]
    assert world.end["cause"] == 0, "the event that made it fail, not the one that let it end"


async def test_a_failed_outcome_is_the_cause_of_the_end(run: Run) -> None:
    world = await run(HEAD + f"export default async function main() {{ {NAMES} await probe.fail({{}}); }}")
    failed = next(entry for entry in world.entries if entry["type"] == "tool_call_completed")
    assert world.end["cause"] == failed["seq"]


@pytest.mark.parametrize(
    "body",
    ["await new Promise(() => {});", "return { then() {} } as any;"],
    ids=["never settles", "output is a thenable that never settles"],
)
async def test_deadlock(run: Run, body: str) -> None:
    world = await run(f"export default async function main() {{ {body} }}")
    assert world.error["name"] == "DeadlockError"


async def test_a_pending_timer_is_no_deadlock_until_it_fired(run: Run) -> None:
    world = await run(
        "export default async function main() { setTimeout(() => {}, 50); await new Promise(() => {}); }"
    )
    assert world.error["name"] == "DeadlockError"
    assert [entry["type"] for entry in world.entries] == [
        "run_started",
        "start_timer",
        "timer_fired",
        "fail_run",
    ]


async def test_cancel_rejects_everything_pending_in_order_and_cleans_up(run: Run) -> None:
    source = (
        HEAD
        + """
    export default async function main() {
      const seen: string[] = [];
      const note = (name: string) => (e: unknown) => { seen.push(`${name} ${(e as Error).name}`); throw e; };
      const all = [
        sleep("1d").catch(note("sleep")),
        probe.echo({ n: 1 }).catch(note("call")),
        waitForSignal("never", { timeout: "2d" }).catch(note("wait")),
      ];
      try { await Promise.all(all); } catch (e) {
        await Promise.allSettled(all);
        console.log(seen.join(), e instanceof CancelledError, (e as Error).message);
        await sleep(5).catch((x: Error) => console.log("sleep", x.name));
        await waitForSignal("x").catch((x: Error) => console.log("wait", x.name));
        await probe.gated({}).catch((x: Error) => console.log("gated", x.name));
        setTimeout(() => console.log("never"), 1);
        await probe.echo({ clean: true });
        console.log("never: the outcome of a clean-up call is not delivered");
      }
    }"""
    )

    def answer(call: int, _tool: str, args: object) -> Outcome:
        return Outcome(result=args, after_ms=90_000 if call == 1 else 20)

    world = await run(source, cancel_at=60_000, answer=answer)
    assert [log[1] for log in world.logs] == [
        "sleep CancelledError,call CancelledError,wait CancelledError",
        "sleep",
        "wait",
        "gated",
    ]
    assert world.logs[0][2:] == [True, "the run was cancelled (user)"]
    assert world.calls == [["probe.echo", {"n": 1}], ["probe.echo", {"clean": True}]]
    assert (world.end["type"], world.end["reason"]) == ("cancel_run", "user")
    assert len(world.of_type("start_timer")) == 2


async def test_what_a_cancelled_run_throws_or_returns_is_ignored(run: Run) -> None:
    for tail in ("return 'x';", "throw new Error('in finally');", "Promise.reject(new Error('unwatched'));"):
        world = await run(
            HEAD
            + f"export default async function main() {{ {NAMES} try {{ await sleep('1d') }} finally {{ {tail} }} }}",
            cancel_at=10,
        )
        assert world.end["type"] == "cancel_run"


async def test_cancel_after_the_return_delivers_nothing_more_and_completes(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {"
        f"{NAMES} probe.echo({{}}).then(() => console.log('never heard')); return 7; }}",
        cancel_at=10,
        answer=lambda _call, _tool, args: Outcome(result=args, after_ms=50),
    )
    assert world.output == 7
    assert world.logs == []


async def test_cancel_after_a_throw_still_fails(run: Run) -> None:
    world = await run(
        HEAD
        + f"export default async function main() {{ {NAMES} probe.echo({{}}); throw new Error('first'); }}",
        cancel_at=10,
        answer=lambda _call, _tool, args: Outcome(result=args, after_ms=50),
    )
    assert world.error["message"] == "first"


async def test_a_throw_in_the_module_body_fails_the_run_with_its_line(run: Run) -> None:
    world = await run("const a = 1;\nnull!.x;\nexport default async function main() { return a }")
    assert (world.error["name"], world.error["line"]) == ("TypeError", 2)


async def test_a_default_export_that_is_no_function_is_said_so(run: Run) -> None:
    world = await run("const app = { main: async () => 1 } as any;\nexport default app;")
    assert world.error["name"] == "TypeError"
    assert "the default export is not a function" in world.error["message"]


async def test_top_level_await_works(run: Run) -> None:
    world = await run(
        'import { probe } from "rewind:tools";\nconst first = await probe.echo({ n: 1 });\n'
        "export default () => first;"
    )
    assert world.output == {"n": 1}


async def test_an_import_that_the_toolset_lacks_says_what_there_is(run: Run) -> None:
    world = await run('import { github } from "rewind:tools";\nexport default () => github;')
    assert world.error["message"] == '"rewind:tools" has no export "github": it has probe'


@pytest.mark.parametrize(
    ("thrown", "message"),
    [
        ("undefined", 'non-error thrown: "undefined"'),
        ("null", "non-error thrown: null"),
        ("-0", "non-error thrown: 0"),
        ("Symbol('boom')", 'non-error thrown: "Symbol(boom)"'),
        (
            "Object.freeze({ message: 'frozen', stack: 42 })",
            'non-error thrown: {"message":"frozen","stack":42}',
        ),
        ("() => 1", "non-error thrown: a function"),
    ],
)
async def test_thrown_non_errors(run: Run, thrown: str, message: str) -> None:
    world = await run(f"export default async function main() {{ throw {thrown}; }}")
    assert (world.error["name"], world.error["message"]) == ("Error", message)


async def test_causes_are_recorded(run: Run) -> None:
    world = await run(
        "export default async function main() {\n"
        "  throw new Error('outer', { cause: new RangeError('inner', { cause: { code: 7 } }) });\n}"
    )
    cause = world.error["cause"]
    assert (cause["name"], cause["message"], cause["line"]) == ("RangeError", "inner", 2)
    assert cause["cause"] == {"code": 7}


async def test_the_errors_of_an_aggregate_stand_in_the_place_of_its_cause(run: Run) -> None:
    world = await run(
        "export default async function main() {\n"
        "  const first = Promise.reject(new Error('a', { cause: new TypeError('deeper') }));\n"
        "  await Promise.any([first, Promise.reject('text'), ...Array.from({ length: 20 }, () => Promise.reject(1))]); }"
    )
    assert (world.error["name"], world.error["message"]) == ("AggregateError", "All promises were rejected")
    assert world.error["line"] == 2
    first, second, *_, last = world.error["cause"]
    assert (first["message"], first["line"], first["cause"]["name"]) == ("a", 2, "TypeError")
    assert second == 'non-error thrown: "text"'
    assert (len(world.error["cause"]), last) == (9, "and 14 more")


@pytest.mark.parametrize(
    "patch", ["then = null", "then = () => 1", "constructor = null", "constructor = class {}"]
)
async def test_a_promise_is_a_promise_whatever_its_prototype_says(run: Run, patch: str) -> None:
    world = await run(
        f"export default async function main() {{ (Promise.prototype as any).{patch}; return {{ fine: true }}; }}"
    )
    assert world.output == {"fine": True}


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("Promise.resolve(3)", 3),
        ("Object.freeze(Promise.resolve(4))", 4),
        ("new (class Mine extends Promise<number> {})((ok) => ok(5))", 5),
        ("{ then(ok: (n: number) => void) { ok(6); } }", 6),
        ("{ then: 7 }", {"then": 7}),
    ],
)
async def test_what_main_may_return(run: Run, result: str, output: object) -> None:
    assert (await run(f"export default function main(): any {{ return {result}; }}")).output == output
