"""Signals: kept until awaited, first come first served, raced against timeouts, aborted."""

import pytest

from tests.sandbox.isolate.conftest import Run
from tests.sandbox.isolate.world import Outcome, World

pytestmark = pytest.mark.asyncio(loop_scope="module")

HEAD = 'import { sleep, waitForSignal } from "rewind";\nexport default async function main() { void [sleep, waitForSignal];\n'


def names(world: World) -> list[str]:
    return [command["type"] for command in world.commands]


async def test_a_signal_sent_before_it_is_awaited_is_kept(run: Run) -> None:
    world = await run(
        HEAD + "await sleep(100); return [await waitForSignal('go'), await waitForSignal('go')]; }",
        signals=[(10, "go", 1), (20, "go", 2), (30, "other", 3)],
    )
    assert world.output == [1, 2]
    assert names(world) == ["start_timer", "signal_awaited", "signal_awaited", "complete_run"]
    assert world.waits_done == [1, 2]


async def test_waits_of_one_name_are_served_in_order(run: Run) -> None:
    world = await run(
        HEAD + "return await Promise.all(['a', 'a', 'b'].map((n) => waitForSignal(n))); }",
        signals=[(1, "a", "first"), (2, "b", "only"), (3, "a", "second")],
    )
    assert world.output == ["first", "second", "only"]
    assert [w["wait"] for w in world.of_type("signal_awaited")] == [1, 2, 3]
    assert world.waits_done == [1, 3, 2]


async def test_a_signal_that_wins_clears_the_timer(run: Run) -> None:
    world = await run(
        HEAD + "return await waitForSignal('go', { timeout: '3d' }); }", signals=[(50, "go", {"yes": True})]
    )
    assert world.output == {"yes": True}
    timer, wait, cleared, _ = world.commands
    assert (timer["type"], timer["why"], timer["delay"]) == ("start_timer", "signal_timeout", 259_200_000)
    assert (wait["type"], wait["timer"], wait["line"]) == ("signal_awaited", 1, 3)
    assert (cleared["type"], cleared["timer"]) == ("timer_cleared", 1)


async def test_a_timeout_that_wins_gives_null_and_no_command(run: Run) -> None:
    world = await run(HEAD + "return await waitForSignal('go', { timeout: 10 }); }", signals=[(50, "go", 1)])
    assert world.output is None
    assert names(world) == ["start_timer", "signal_awaited", "complete_run"]
    assert world.waits_done == [1]


async def test_a_kept_signal_wins_over_a_timeout_of_zero(run: Run) -> None:
    world = await run(
        HEAD + "await sleep(20); return await waitForSignal('go', { timeout: 0 }); }",
        signals=[(10, "go", "kept")],
    )
    assert world.output == "kept"


async def test_a_signal_after_the_timeout_goes_to_the_next_wait(run: Run) -> None:
    world = await run(
        HEAD
        + "const a = await waitForSignal('go', { timeout: 10 }); const b = await waitForSignal('go'); return [a, b]; }",
        signals=[(50, "go", 1)],
    )
    assert world.output == [None, 1]


async def test_abort_clears_wait_and_timer_and_rejects_with_the_reason(run: Run) -> None:
    world = await run(
        HEAD + "const c = new AbortController();\n"
        "const p = waitForSignal('go', { timeout: '1h', signal: c.signal }).catch((e: Error) => [e.name, e.cause]);\n"
        "await sleep(5);\nc.abort('enough');\nconst got = await p;\nreturn [got, await waitForSignal('go')]; }",
        signals=[(50, "go", "kept for the next")],
    )
    assert world.output == [["CancelledError", "enough"], "kept for the next"]
    (cleared,) = world.of_type("signal_wait_cleared")
    assert (cleared["wait"], cleared["line"]) == (1, 6)
    assert len(world.of_type("timer_cleared")) == 1


async def test_from_harness_takes_only_signals_of_keys_and_members(pool: object, run: Run) -> None:
    source = (
        HEAD
        + "const h = waitForSignal('go', { from: 'harness' }); const any = waitForSignal('go'); return [await h, await any]; }"
    )

    class Mixed(World):
        pass

    world = await run(source, both=False, signals=[])
    assert world.stage == "running"
    (first, second) = world.of_type("signal_awaited")
    assert (first["from"], second["from"]) == ("harness", None)
    world.send("go", "of a token", 10, kind="token")
    world.send("go", "of a member", 20, kind="member")
    world.evicted = True
    world._handle = None
    await world._step()
    await world._step()
    assert world.output == ["of a member", "of a token"]


@pytest.mark.parametrize(
    "call",
    [
        "waitForSignal('')",
        "waitForSignal(7 as any)",
        "waitForSignal('x', { from: 'agent' as any })",
        "waitForSignal('x', { timeout: 'soon' })",
        "waitForSignal('x', { signal: {} as any })",
        "waitForSignal('\\ud800')",
        "waitForSignal('\\u0000')",
        "waitForSignal('a b')",
        "waitForSignal('x'.repeat(129))",
        "waitForSignal('x'.repeat(1_000_000))",
    ],
)
async def test_bad_waits_reject_and_record_nothing(run: Run, call: str) -> None:
    world = await run(HEAD + f"return await {call}.catch((e: Error) => e.name); }}")
    assert world.output in {"TypeError", "RangeError"}
    assert names(world) == ["complete_run"]


async def test_signals_joined_and_raced_with_a_sleep(run: Run) -> None:
    world = await run(
        HEAD + "const all = Promise.all(['a', 'b', 'c'].map((n) => waitForSignal(n)));\n"
        "return await Promise.race([all, sleep('35m').then(() => 'late')]); }",
        signals=[(1000, "a", 1), (2000, "b", 2), (3000, "c", 3)],
    )
    assert world.output == [1, 2, 3]


async def test_a_failed_script_keeps_only_the_books_of_its_waits(run: Run) -> None:
    world = await run(
        'import { waitForSignal } from "rewind";\nimport { probe } from "rewind:tools";\n'
        "export default async function main() { void probe.echo({}); let heard = 0;\n"
        "void waitForSignal('a').then(() => { heard = 1; console.log('heard'); });\n"
        "void waitForSignal('b', { timeout: 20 }).then(() => console.log('heard'));\n"
        "throw new Error('over'); }",
        answer=lambda *_: Outcome(result=1, after_ms=1_000),
        signals=[(10, "a", 1)],
    )
    assert world.error["message"] == "over"
    assert world.waits_done == [1, 2]  # by the signal, by the timeout
    assert (world.logs, world.of_type("timer_cleared")) == ([], [])
