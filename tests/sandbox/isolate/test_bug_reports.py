"""Public bug reports of our field, tried on the sandbox: each warm, and rebuilt from its history after every event."""

from typing import Any

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import START_MS, Outcome

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_MS = 86_400_000
HEAD = (
    'import { sleep, waitForSignal, CancelledError } from "rewind";\nimport { probe } from "rewind:tools";\n'
    "void [sleep, waitForSignal, CancelledError, probe];\n"
)


async def test_o01_signals_joined_and_raced_with_a_sleep(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {\n"
        "const all = Promise.all(['a', 'b', 'c'].map((name) => waitForSignal(name)));\n"
        "return await Promise.race([all, sleep('35m').then(() => 'late')]); }",
        signals=[(1_000, "a", 1), (2_000, "b", 2), (34 * 60_000, "c", 3)],
    )
    assert world.output == [1, 2, 3]


async def test_o02_parallel_loops_of_calls_and_sleeps(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {\n"
        "const loop = async (k: number) => { let sum = 0; for (let i = 0; i < 4; i++) {"
        " sum += await probe.echo(k * 10 + i) as number; await sleep(k * 7 + i); } return sum; };\n"
        "return await Promise.all([0, 1, 2, 3, 4].map(loop)); }",
        answer=lambda call, _tool, args: Outcome(result=args, after_ms=(call * 13) % 29),
    )
    assert world.output == [6, 46, 86, 126, 166]
    assert len(world.of_type("start_timer")) == len(world.calls) == 20


@pytest.mark.parametrize(
    ("answered_ms", "signalled_ms", "branch"),
    [(90, 120, "early"), (120, 90, "early"), (110, 120, "late"), (120, 110, "late")],
)
async def test_o03_the_time_after_a_race_is_that_of_its_winner(
    run: Run, answered_ms: int, signalled_ms: int, branch: str
) -> None:
    world = await run(
        HEAD + "export default async function main() { const cutoff = Date.now() + 100;\n"
        "await Promise.race([probe.echo({}), waitForSignal('go')]);\n"
        "return Date.now() < cutoff ? 'early' : 'late'; }",
        answer=lambda *_: Outcome(result=1, after_ms=answered_ms),
        signals=[(signalled_ms, "go", None)],
    )
    assert world.output == branch


async def test_o04_computed_sleeps_all_resume(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { const at: number[] = []; const start = Date.now();\n"
        "for (let k = 1; k <= 20; k++) { await sleep(k * 47); at.push(Date.now() - start); } return at; }"
    )
    assert world.output == [47 * k * (k + 1) // 2 for k in range(1, 21)]


ASYNCHRONOUS = [
    "Array.fromAsync",
    "Symbol.asyncDispose",
    "Symbol.asyncIterator",
    "crypto.subtle.digest",
    "globalThis.AsyncDisposableStack",
]
"""Every built-in by whose name one would think that something goes on beside the script."""


async def test_o05_nothing_asynchronous_settles_by_itself(run: Run) -> None:
    """All globals are looked through; what answers with a promise settles in order, the same again."""
    world = await run(
        HEAD + "export default async function main() {\n"
        "const order: string[] = [], absent = ['WebAssembly', 'WeakRef', 'FinalizationRegistry', 'Atomics', 'SharedArrayBuffer'];\n"
        "const names = Object.getOwnPropertyNames(globalThis), found: string[] = [];\n"
        "const look = (value: any, path: string) => { for (const name of Object.getOwnPropertyNames(value)) {\n"
        "  if (/async|await|digest|compile|instantiate/i.test(name)) found.push(`${path}.${name}`); } };\n"
        "look(globalThis, 'globalThis'); for (const name of names) { const value = (globalThis as any)[name];\n"
        "  if (value !== globalThis && (typeof value === 'object' || typeof value === 'function') && value) look(value, name); }\n"
        "look(crypto.subtle, 'crypto.subtle'); look(Object.getPrototypeOf(crypto.subtle), 'crypto.subtle');\n"
        "const note = (name: string) => () => { order.push(name); };\n"
        "const all = [crypto.subtle.digest('SHA-256', new Uint8Array(100_000)).then(note('long digest')),\n"
        "  crypto.subtle.digest('SHA-256', new Uint8Array(1)).then(note('short digest')),\n"
        "  Array.fromAsync([1, 2, 3]).then(note('array')), Promise.resolve().then(note('microtask')),\n"
        "  (async () => { for await (const one of [1]) note('loop')(); })()];\n"
        "await Promise.all(all); await sleep(1); return [absent.filter((name) => name in globalThis), found.sort(), order]; }"
    )
    absent, found, order = world.output
    assert absent == []
    assert found == ASYNCHRONOUS, found
    assert order.index("long digest") < order.index("short digest"), "not by how long they take"
    assert len(order) == 5
    types = [entry["type"] for entry in world.entries]
    assert types == ["run_started", "start_timer", "timer_fired", "complete_run"], "all within one activation"


FORGOTTEN = HEAD + (
    "export default async function main() {\n"
    "  probe.fail({ message: 'no such user' });\n"
    "  void probe.echo({ slow: true }).catch(() => 0);\n"
    "  await sleep('1h');\n}"
)


def forgotten(_call: int, tool: str, args: Any) -> Outcome:
    slow = 5_000 if args.get("slow") else 10
    return (
        Outcome(error={"message": args["message"]}, after_ms=slow)
        if tool == "probe.fail"
        else Outcome(1, None, slow)
    )


async def test_o06_a_forgotten_await_fails_the_run_after_its_calls(run: Run) -> None:
    world = await run(FORGOTTEN, answer=forgotten)
    assert (world.error["name"], world.error["line"]) == ("ToolError", 5)
    completed = [entry["call"] for entry in world.entries if entry["type"] == "tool_call_completed"]
    assert completed == [1, 2]  # the other call's outcome is recorded before the end


async def test_o07_the_diagnostic_says_that_nobody_handled_it(run: Run) -> None:
    world = await run(FORGOTTEN, answer=forgotten)
    told = f"{world.error['message']} {world.error.get('stack')}"
    assert "no such user" in told
    assert "without a handler" in told
    assert world.error["line"] == 5, "that of the call"


async def test_o08_the_loser_of_a_race_keeps_its_place_and_changes_no_ended_run(run: Run) -> None:
    source = (
        HEAD + "export default async function main(input: number) { let state = 'none';\n"
        "await Promise.race([waitForSignal('go').then(() => { state = 'signal'; }),"
        " sleep(1000).then(() => { state = 'timer'; })]);\n"
        "const won = state; if (input > 0) await sleep(input); return [won, state]; }"
    )
    longer = await run(source, input=5_000, signals=[(10, "go", None)])
    assert longer.output == ["signal", "timer"]  # both handlers run, in the journal's order
    ended = await run(source, input=0, signals=[(10, "go", None)])
    assert ended.output == ["signal", "signal"]
    assert ended.entries[-1]["type"] == "complete_run"


async def test_o09_zero_and_negative_durations_are_timers_too(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { await sleep(0); await sleep(-1);\n"
        "await new Promise<void>((done) => setTimeout(done, 0));\n"
        "await sleep(Date.now() - Date.now()); await sleep(new Date(0)); await sleep(NaN); return 'done'; }"
    )
    assert world.output == "done"
    assert [timer["why"] for timer in world.of_type("start_timer")] == [
        "sleep",
        "sleep",
        "timeout",
        *["sleep"] * 3,
    ]


async def test_o10_a_timer_cleared_in_the_turn_in_which_it_is_due(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { let fired = 0;\n"
        "const handle = setTimeout(() => { fired++; }, 100);\n"
        "await probe.echo({}); clearTimeout(handle); await sleep(1000); return fired; }",
        answer=lambda *_: Outcome(result=1, after_ms=100),
    )
    assert world.output in {0, 1}
    cleared = len(world.of_type("timer_cleared"))
    assert cleared == 1 - world.output


async def test_o11_random_sleeps_have_the_same_lengths_again(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { const at: number[] = [];\n"
        "for (let i = 0; i < 20; i++) { await sleep(1000 + Math.random() * 9000); at.push(Date.now()); } return at; }"
    )
    assert len(set(world.output)) == 20
    assert world.output == sorted(world.output)


async def test_o12_the_stack_of_a_caught_error_is_the_same_text(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {\n"
        "  try { await probe.fail({ message: 'x' }); } catch (error) {\n"
        "    await sleep(10); return await probe.echo({ stack: (error as Error).stack }); } }"
    )
    assert "script.ts" in world.output["stack"]


async def test_o14_ten_calls_that_finish_in_any_order(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() {\n"
        "return await Promise.all([...Array(10).keys()].map(async (k) => {"
        " const first = await probe.echo(k); return await probe.echo([first]); })); }",
        answer=lambda call, _tool, args: Outcome(result=args, after_ms=(call * 37) % 11),
    )
    assert world.output == [[k] for k in range(10)]
    assert [call["call"] for call in world.of_type("schedule_tool_call")] == list(range(1, 21))


async def test_o16_a_signal_sent_before_anybody_waits_is_kept(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { await sleep(500); return await waitForSignal('go'); }",
        signals=[(0, "go", "early")],
    )
    assert world.output == "early"


async def test_o18_a_cancel_interrupts_a_sleep_at_once(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { try { await sleep('24h'); return 'slept'; }\n"
        "catch (error) { console.log(error instanceof CancelledError); throw error; } }",
        cancel_at=1_000,
    )
    assert world.end["type"] == "cancel_run"
    assert world.logs == [["log", True]]
    assert world.entries[-1]["time"] == START_MS + 1_000


async def test_o19_delays_over_31_bits_are_kept(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { const start = Date.now();\n"
        "await new Promise<void>((done) => setTimeout(done, 30 * 86_400_000)); const one = Date.now() - start;\n"
        "await sleep('60d'); return [one, Date.now() - start]; }"
    )
    assert world.output == [30 * DAY_MS, 90 * DAY_MS]


async def test_o20_an_error_thrown_by_a_host_function_leads_to_no_function_of_the_host(run: Run) -> None:
    """As hostile/01 does, on every function that the sandbox gives a script."""
    world = await run(
        HEAD + "export default async function main() {\n"
        "const mine = (async () => {}).constructor.constructor, leaks: string[] = [];\n"
        "const look = (name: string, error: any) => { for (const made of [error, error?.stack, error?.cause]) {\n"
        "  const own = made?.constructor?.constructor; if (own !== undefined && own !== mine) leaks.push(name);\n"
        "  for (const code of ['return process', 'return globalThis.process', 'return this.require'])"
        " try { if (own?.(code)() !== undefined) leaks.push(`${name}: ${code}`); } catch {} } };\n"
        "const throwing: [string, () => unknown][] = [['echo', () => probe.echo({ n: 1n } as any)], ['fail', () => probe.fail({})],"
        " ['sleep', () => sleep('soon')], ['wait', () => waitForSignal('')], ['timer', () => setTimeout(1 as any)],"
        " ['clone', () => structuredClone(() => 1)], ['url', () => new URL('no')], ['atob', () => atob('%')],"
        " ['random', () => crypto.getRandomValues(1 as any)], ['stack', () => { const deep = (): any => deep(); return deep(); }]];\n"
        "for (const [name, act] of throwing) try { await act(); leaks.push(`${name} did not throw`); }"
        " catch (error) { look(name, error); }\nreturn leaks; }"
    )
    assert world.output == []


async def test_o21_no_way_leads_to_the_clock_behind_date(run: Run) -> None:
    world = await run(
        HEAD + "export default async function main() { await sleep(1234);\n"
        "const dates: any[] = [Date, Date.prototype.constructor, Object.getPrototypeOf(new Date()).constructor,"
        " new Date().constructor, Object.getOwnPropertyDescriptor(Date.prototype, 'constructor')!.value,"
        " (class extends Date {} as any).__proto__, Reflect.construct(Date, []).constructor];\n"
        "return dates.flatMap((D) => [D.now(), new D().getTime(), Date.parse(D()), Reflect.construct(D, [], Date).getTime()]"
        ".concat(D === Date ? [] : ['another'] as any)); }"
    )
    now = START_MS + 1_234
    whole = now - now % 1_000
    assert world.output == [now, now, whole, now] * 7
