"""SPEC, rules of runs: Signals, and the commands that follow an undelivered event."""

import pytest

from sandbox.journal import entries as e
from sandbox.journal.canonical import value_of
from sandbox.store.interface import Guard
from tests.sandbox.rules.rig import Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_early_signals_are_kept_and_taken_in_their_order(rig: Rig) -> None:
    await rig.start("await g.echo({}); return [await waitForSignal('s'), await waitForSignal('s')];")
    for number in (1, 2, 3):
        await rig.signal("s", number, f"s{number}")
    await rig.answer(None)
    assert rig.output == [1, 2]


async def test_many_waits_of_one_name_are_served_first_come_first_served(rig: Rig) -> None:
    await rig.start(
        "const got = []; const waits = [1, 2, 3].map((n) => waitForSignal('s').then((v) => got.push(`${n}${v}`)));\n"
        "await Promise.all(waits); return got;"
    )
    for name in ("a", "b"):
        await rig.signal("s", name, name)
    assert rig.pending == [("wait", 3)]
    await rig.signal("s", "c", "c")
    assert rig.output == ["1a", "2b", "3c"]


async def test_an_id_is_received_once(rig: Rig) -> None:
    await rig.start("return [await waitForSignal('s'), await waitForSignal('s')];")
    first = await rig.signal("s", 1, "same")
    again = await rig.signal("s", 2, "same")
    assert (first.outcome.value, again.outcome.value, again.seq) == ("appended", "duplicate", first.seq)
    assert rig.pending == [("wait", 2)]
    await rig.signal("s", 3, "other")
    assert rig.output == [1, 3]


async def test_an_ended_run_takes_no_signal(rig: Rig) -> None:
    await rig.start("return 1;")
    assert (await rig.signal("s", 1, "s1")).outcome.value == "ended"


async def test_a_signal_that_wins_clears_the_timer_of_its_timeout(rig: Rig) -> None:
    await rig.start("const got = await waitForSignal('s', { timeout: '1h' }); await sleep('2h'); return got;")
    assert rig.pending == [("timer", 1), ("wait", 1)]
    await rig.signal("s", "won", "s1")
    assert rig.told[3:5] == ["signal s1", "cleared 1"]
    assert rig.pending == [("timer", 2)]
    await rig.advance(2 * 3_600_000)
    assert rig.output == "won"


async def test_a_late_signal_goes_to_the_next_wait(rig: Rig) -> None:
    await rig.start("return [await waitForSignal('s', { timeout: 10 }), await waitForSignal('s')];")
    await rig.advance(10)
    await rig.signal("s", "late", "s1")
    assert rig.output == [None, "late"]


@pytest.mark.parametrize(("first", "output"), [("signal", ["s", None]), ("timeout", [None, "s"])])
async def test_a_signal_and_its_timeout_at_the_same_moment(
    rig: Rig, first: str, output: list[object]
) -> None:
    """Whichever was recorded first; the other changes nothing, and the signal is never lost."""
    await rig.start(
        "return [await waitForSignal('s', { timeout: 10 }), await waitForSignal('s', { timeout: 50 })];"
    )
    rig.journals.advance(10)
    if first == "signal":
        await rig.signal("s", "s", "s1", go=False)
        await rig.store.append_event(rig.due_timer(1))
    else:
        await rig.store.append_event(rig.due_timer(1))
        await rig.signal("s", "s", "s1", go=False)
    await rig.go()
    recorded = [name for name in rig.told if name in {"signal s1", "fired 1"}]
    assert recorded == (["signal s1", "fired 1"] if first == "signal" else ["fired 1", "signal s1"])
    times = {entry.time for entry in rig.entries if isinstance(entry.body, e.SignalReceived | e.TimerFired)}
    assert len(times) == 1
    await rig.advance(50)
    assert rig.output == output
    assert ("cleared 1" in rig.told) == (first == "signal")


async def test_a_wait_cleared_after_its_signal_was_recorded_leaves_the_signal_to_the_next(rig: Rig) -> None:
    await rig.start(
        "const c = new AbortController(); const first = waitForSignal('s', { signal: c.signal }).catch((x) => x.name);\n"
        "await g.echo({}); c.abort(); return [await first, await waitForSignal('s')];"
    )
    (task,) = await rig.claim()
    await rig.complete(task, 1, go=False)
    await rig.signal("s", "kept", "s1", go=False)
    await rig.go()
    assert rig.told[3:] == ["outcome 1", "signal s1", "wait cleared 1", "wait 2 s", "completed"]
    assert rig.output == ["CancelledError", "kept"]


async def test_a_call_aborted_after_its_outcome_was_recorded_is_a_no_op_delivered(rig: Rig) -> None:
    await rig.start(
        "const c = new AbortController(); const call = g.echo({}, { signal: c.signal }).catch((x) => x.name);\n"
        "await waitForSignal('s'); c.abort(); const got = await call; await sleep(5); return got;"
    )
    (task,) = await rig.claim()
    await rig.signal("s", 1, "s1", go=False)
    await rig.complete(task, "too late", go=False)
    await rig.go()
    assert rig.told[3:] == ["signal s1", "outcome 1", "abort 1", "timer 1 sleep"]
    await rig.advance(5)
    assert rig.output == "CancelledError"


async def test_from_harness_leaves_others_signals_to_others(rig: Rig) -> None:
    await rig.start(
        "const all = [waitForSignal('s', { from: 'harness' }), waitForSignal('s')]; return await Promise.all(all);"
    )
    body = e.SignalReceived("s", value_of("of an agent"), "s1", None, e.Actor("token", "t"))
    await rig.event(body, Guard.SIGNAL, signal_id="s1")
    assert rig.pending == [("wait", 1)]
    await rig.signal("s", "of a key", "s2")
    assert rig.output == ["of a key", "of an agent"]
