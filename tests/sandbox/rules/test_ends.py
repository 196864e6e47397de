"""SPEC, rules of runs: Failed, Returned, and what holds an end."""

import pytest

from sandbox.journal import entries as e
from tests.sandbox.rules.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

WITHDRAWN = [("CancelledError", 0)]


def outcomes(rig: Rig) -> dict[int, tuple[str | None, int]]:
    return {
        body.call: (None if body.error is None else body.error.name, body.attempts)
        for body in rig.bodies(e.ToolCallCompleted)
    }


async def test_a_throw_withdraws_what_has_not_begun_and_awaits_what_has(rig: Rig) -> None:
    await rig.start(
        "g.echo({ n: 1 }).then(() => console.log('never')); g.echo({ n: 2 }); await sleep(10); throw new TypeError('no');"
    )
    (begun,) = await rig.claim(1)
    await rig.advance(10)
    assert (rig.status, outcomes(rig)) == ("active", {2: ("CancelledError", 0)})
    assert await rig.heartbeat(begun) == [False], "it is awaited, not told to stop"
    await rig.advance(10_000)
    await rig.heartbeat(begun)
    assert rig.status == "active"
    await rig.complete(begun, "late")
    assert (rig.status, outcomes(rig)[1]) == ("failed", (None, 1))
    assert (rig.logs, rig.told[-1]) == ([], "failed TypeError")
    assert rig.entries[-1].cause == rig.told.index("fired 1"), "the event that made it fail"


async def test_after_a_throw_nothing_is_delivered(rig: Rig) -> None:
    await rig.start(
        "setTimeout(() => console.log('timer'), 5); waitForSignal('s').then(() => console.log('signal'));\n"
        "g.echo({}).then(() => console.log('call')); await sleep(1); throw new Error('over');"
    )
    (begun,) = await rig.claim()
    await rig.advance(1)
    await rig.advance(10)
    await rig.signal("s", 1, "s1")
    await rig.complete(begun, 1)
    assert (rig.logs, rig.status) == ([], "failed")
    assert [name for name in rig.told if name.startswith(("fired", "signal"))] == [
        "fired 2",
        "fired 1",
        "signal s1",
    ]


async def test_a_rejection_that_nobody_handles_fails_the_run_after_the_drain(rig: Rig) -> None:
    await rig.start("Promise.reject(new Error('lost')); await sleep('1d');")
    assert (rig.status, rig.told[-1]) == ("failed", "failed Error")


async def test_a_rejection_that_is_handled_in_the_same_drain_does_not(rig: Rig) -> None:
    await rig.start(
        "const p = Promise.reject(new Error('x')); await null; await null; return await p.catch(() => 'fine');"
    )
    assert rig.output == "fine"


async def test_a_deadlock_is_seen_when_the_last_thing_that_could_happen_has(rig: Rig) -> None:
    await rig.start("g.echo({}); await new Promise(() => {});")
    assert rig.status == "active"
    await rig.answer(1)
    assert (rig.status, rig.told[-1]) == ("failed", "failed DeadlockError")


async def test_handlers_of_forgotten_calls_run_after_the_return_and_may_call_again(rig: Rig) -> None:
    await rig.start(
        "const out = { n: 1 }; g.echo({ n: 1 }).then(() => { out.n = 9; console.log('first'); return g.echo({ n: 2 }); })"
        ".then(() => console.log('second')); return out;"
    )
    assert rig.status == "active"
    await rig.answer(1)
    assert (rig.status, rig.logs) == ("active", ["first"])
    await rig.answer(2)
    assert (rig.output, rig.logs) == ({"n": 1}, ["first", "second"])
    assert rig.entries[-1].cause == rig.told.index("outcome 2")


async def test_after_the_return_every_event_is_still_delivered(rig: Rig) -> None:
    """Timers and waits hold nothing open, but while a call does, they go on."""
    await rig.start(
        "g.echo({}); setTimeout(() => console.log('timer'), 10); waitForSignal('s').then((v) => console.log(v));"
        "setInterval(() => console.log('tick'), 4); return 1;"
    )
    (begun,) = await rig.claim()
    await rig.advance(10)
    await rig.signal("s", "signal", "s1")
    await rig.complete(begun, 1)
    assert (rig.output, rig.logs) == (1, ["tick", "tick", "timer", "signal"])
    assert rig.pending == []


async def test_a_rejection_after_the_return_turns_the_end_into_failed(rig: Rig) -> None:
    await rig.start("g.echo({}).then(() => { g.echo({}); throw new RangeError('late'); }); return 1;")
    await rig.answer(1)
    assert (rig.status, rig.told[-2:]) == ("failed", ["outcome 2 CancelledError", "failed RangeError"])


async def test_an_unbegun_forgotten_call_holds_the_end_until_it_is_done(rig: Rig) -> None:
    await rig.start("g.echo({}); return 1;")
    await rig.advance(86_400_000)
    assert (rig.status, rig.pending) == ("active", [("call", 1)])
    await rig.answer(None)
    assert rig.status == "completed"


async def test_an_aborted_call_holds_the_end_until_its_outcome_is_recorded(rig: Rig) -> None:
    await rig.start(
        "const c = new AbortController(); const p = g.echo({}, { signal: c.signal }).catch((e) => [e.name, e.cause]);\n"
        "await sleep(5); c.abort('enough'); return await p;"
    )
    (begun,) = await rig.claim()
    await rig.advance(5)
    assert (rig.status, rig.told[-1]) == ("active", "abort 1")
    assert await rig.heartbeat(begun) == [True], "told to stop"
    await rig.advance(25_000)
    await rig.heartbeat(begun)
    await rig.advance(5_000)
    assert (rig.output, outcomes(rig)) == (["CancelledError", "enough"], {1: ("OutcomeUnknownError", 1)})


async def test_an_aborted_call_that_was_not_begun_is_withdrawn_in_the_same_append(rig: Rig) -> None:
    await rig.start(
        "const c = new AbortController(); const p = g.echo({}, { signal: c.signal }).catch((e) => e.name);\n"
        "await sleep(5); c.abort(); return await p;"
    )
    await rig.advance(5)
    assert rig.told[-3:] == ["abort 1", "outcome 1 CancelledError", "completed"]
    assert list(outcomes(rig).values()) == WITHDRAWN
    assert await rig.claim() == []
