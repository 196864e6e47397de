"""SPEC, rules of runs: Cancelled, start_at, Aborted, and what a TTL does."""

import pytest

from sandbox.journal import entries as e
from sandbox.journal.entries import Limits
from sandbox.store.interface import Guard
from tests.sandbox.rules.rig import DAY_MS, START_MS, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOP = Limits(cpu_ms_per_event=60)
ENDLESS = "for (;;);"


def outcomes(rig: Rig) -> dict[int, tuple[str | None, int]]:
    return {
        body.call: (None if body.error is None else body.error.name, body.attempts)
        for body in rig.bodies(e.ToolCallCompleted)
    }


@pytest.mark.parametrize("reason", ["user", "parent", "ttl"])
async def test_everything_pending_rejects_in_the_order_in_which_it_was_made(rig: Rig, reason: str) -> None:
    await rig.start(
        "const seen = []; const note = (name) => (error) => { seen.push(`${name} ${error.name}`); };\n"
        "const all = [g.echo({}).catch(note('call 1')), sleep('9d').catch(note('timer 1')),"
        " waitForSignal('s').catch(note('wait 1')), g.gated({}).catch(note('call 2')),"
        " waitForSignal('s', { timeout: '9d' }).catch(note('wait 2')), sleep('8d').catch(note('timer 3'))];\n"
        "await Promise.all(all); console.log(seen); return 'ignored';",
        ttl_ms=DAY_MS,
    )
    if reason == "ttl":
        await rig.advance(DAY_MS)
    else:
        await rig.cancel(reason)
    made = ["call 1", "timer 1", "wait 1", "call 2", "wait 2", "timer 3"]
    assert rig.logs == [[f"{name} CancelledError" for name in made]]
    assert (rig.status, rig.told[-1]) == ("cancelled", f"cancelled {reason}")
    assert set(outcomes(rig).values()) == {("CancelledError", 0)}


async def test_in_the_clean_up_waiting_rejects_at_once_and_calls_are_sent(rig: Rig) -> None:
    await rig.start(
        "try { await sleep('1d'); } catch {\n"
        "  const no = (name) => (error) => console.log(`${name} ${error.name}`);\n"
        "  await sleep(0).catch(no('sleep')); await sleep(new Date(0)).catch(no('date'));\n"
        "  await waitForSignal('kept').catch(no('wait')); await g.gated({}).catch(no('gated'));\n"
        "  setTimeout(() => console.log('never'), 0); setInterval(() => console.log('never'), 0);\n"
        "  await retry(() => sleep(1), { attempts: 3 }).catch(no('retry'));\n"
        "  g.echo({ first: true }); await mcp.call({}); console.log('never: its outcome is not delivered');\n}"
    )
    await rig.signal("kept", 1, "s1")
    await rig.cancel()
    names = ["sleep", "date", "wait", "gated", "retry"]
    assert rig.logs == [f"{name} CancelledError" for name in names]
    assert (rig.status, rig.pending) == ("active", [("call", 1), ("call", 2)])
    (task,) = await rig.claim()
    await rig.complete(task, "recorded")
    (call,) = await rig.store.claim_calls("d", 5, lease_ms=300_000, server_max=4, free={})
    body = e.ToolCallCompleted(call.call, None, e.ToolFailure("ToolError", "tool_failed", "no"), attempts=1)
    await rig.event(body, Guard.CALL, n=call.call, attempt=1)
    assert rig.told[-3:] == ["outcome 1", "outcome 2 ToolError", "cancelled user"]
    assert len(rig.logs) == len(names)


@pytest.mark.parametrize(
    "tail",
    ["return 'x';", "throw new Error('in it');", "Promise.reject(new Error('unwatched')); await null;"],
)
async def test_what_the_clean_up_returns_throws_or_rejects_is_ignored(rig: Rig, tail: str) -> None:
    await rig.start(f"try {{ await sleep('1d'); }} finally {{ g.echo({{}}); {tail} }}")
    await rig.cancel()
    await rig.answer("done")
    assert rig.told[-2:] == ["outcome 1", "cancelled user"]


async def test_earlier_calls_are_withdrawn_or_told_to_stop_and_given_30_s(rig: Rig) -> None:
    await rig.start("await Promise.all([g.echo({}), g.echo({}), g.echo({}), g.gated({}), g.again({})]);")
    begun, deferred, stubborn = await rig.claim(3)
    from_key = [(task.namespace, task.run, task.call, task.attempt, task.releases) for task in (deferred,)]
    assert await rig.store.defer_tasks(from_key, [None]) == [True]
    await rig.cancel()
    assert outcomes(rig) == {
        deferred.call: ("CancelledError", 1),
        4: ("CancelledError", 0),
        5: ("CancelledError", 0),
    }
    assert await rig.heartbeat(begun, stubborn) == [True, True]
    assert await rig.claim() == []
    await rig.advance(20_000)
    await rig.heartbeat(stubborn)
    await rig.complete(begun, "stopped")
    await rig.advance(9_999)
    assert rig.status == "active"
    await rig.advance(1)
    assert outcomes(rig)[stubborn.call] == ("OutcomeUnknownError", 1)
    assert rig.status == "cancelled"


async def test_a_clean_up_call_that_does_not_begin_within_30_s_is_withdrawn(rig: Rig) -> None:
    await rig.start("try { await sleep('1d'); } finally { g.echo({}); }")
    await rig.cancel()
    await rig.advance(29_999)
    assert rig.status == "active"
    await rig.advance(1)
    assert (outcomes(rig), rig.status) == ({1: ("CancelledError", 0)}, "cancelled")


async def test_a_begun_clean_up_call_gets_five_minutes(rig: Rig) -> None:
    await rig.start("try { await sleep('1d'); } finally { g.echo({}); }")
    await rig.cancel()
    await rig.advance(29_000)
    (task,) = await rig.claim()
    for _ in range(14):
        await rig.advance(20_000)
        assert await rig.heartbeat(task) == [False], "it is not told to stop"
    await rig.advance(19_999)
    assert rig.status == "active"
    await rig.advance(1)
    assert (outcomes(rig), rig.status) == ({1: ("OutcomeUnknownError", 1)}, "cancelled")


async def test_a_limit_in_the_clean_up_ends_the_clean_up_not_the_status(rig: Rig) -> None:
    await rig.start(
        f"try {{ await sleep('1d'); }} finally {{ console.log('lost'); g.echo({{}}); {ENDLESS} }}",
        limits=LOOP,
    )
    await rig.cancel()
    assert (rig.status, rig.told[-2:]) == ("cancelled", ["cancel user", "cancelled user"])
    assert rig.logs == [], "what was not appended is dropped"


@pytest.mark.parametrize(
    ("end", "status"), [("return 7;", "completed"), ("throw new Error('no');", "failed")]
)
async def test_a_cancel_after_main_has_settled_leaves_the_end_as_it_is(
    rig: Rig, end: str, status: str
) -> None:
    await rig.start(f"g.echo({{}}).then(() => console.log('never')); g.echo({{}}); await sleep(1); {end}")
    (begun,) = await rig.claim(1)
    await rig.advance(1)
    await rig.cancel()
    assert await rig.heartbeat(begun) == [True]
    assert outcomes(rig) == {2: ("CancelledError", 0)}
    await rig.advance(30_000)
    assert outcomes(rig)[1] == ("OutcomeUnknownError", 1)
    assert (rig.status, rig.logs) == (status, [])


async def test_cancelling_again_changes_nothing(rig: Rig) -> None:
    await rig.start("try { await sleep('1d'); } finally { g.echo({}); }")
    await rig.cancel()
    assert (await rig.cancel()).outcome.value == "duplicate"
    await rig.advance(31 * DAY_MS)
    assert [name for name in rig.told if name.startswith("cancel ")] == ["cancel user"]
    assert rig.status == "cancelled"


async def test_a_signal_during_the_clean_up_is_recorded_and_changes_nothing(rig: Rig) -> None:
    await rig.start("try { await waitForSignal('s'); } finally { g.echo({}); }")
    await rig.cancel()
    assert (await rig.signal("s", 1, "s1")).outcome.value == "appended"
    await rig.answer(1)
    assert rig.told[-3:] == ["signal s1", "outcome 1", "cancelled user"]


async def test_a_timer_recorded_before_the_cancel_is_heard_before_it(rig: Rig) -> None:
    await rig.start("await sleep(10); console.log('slept'); await sleep(10); console.log('never');")
    rig.journals.advance(10)
    await rig.store.append_event(rig.due_timer(1))
    await rig.cancel()
    assert (rig.logs, rig.status) == (["slept"], "cancelled")


# -- TTL and start_at


async def test_the_ttl_counts_from_the_start_and_cancels(rig: Rig) -> None:
    await rig.start("await sleep('2d');", held_ms=DAY_MS, ttl_ms=DAY_MS)
    await rig.advance(2 * DAY_MS - 1)
    assert rig.status == "active"
    await rig.advance(1)
    assert rig.told[-2:] == ["cancel ttl", "cancelled ttl"]


async def test_a_run_is_started_at_its_time_and_not_before(rig: Rig) -> None:
    await rig.start("return Date.now();", held_ms=60_000)
    assert (rig.told, rig.pending) == (["started"], [("start", 0)])
    assert rig.entries[0].time == START_MS + 60_000
    await rig.signal("early", 1, "s1")
    await rig.advance(59_999)
    assert rig.told == ["started", "signal s1"]
    await rig.advance(1)
    assert rig.output == START_MS + 60_000


async def test_a_cancel_before_the_start_ends_the_run_without_its_script(rig: Rig) -> None:
    await rig.start("console.log('ran');", held_ms=60_000)
    await rig.cancel()
    assert rig.told == ["started", "cancel user", "cancelled user"]


# -- Aborted


async def test_an_exceeded_limit_ends_the_run_without_a_drain(rig: Rig) -> None:
    await rig.start(
        f"try {{ g.echo({{ n: 1 }}); g.echo({{ n: 2 }}); await sleep(5); console.log('dropped'); {ENDLESS} }}"
        " finally { console.log('never'); }",
        limits=LOOP,
    )
    (begun,) = await rig.claim(1)
    await rig.advance(5)
    assert rig.told[-2:] == ["cancel limit", "outcome 2 CancelledError"]
    asked = rig.bodies(e.CancelRequested)[0]
    assert (asked.limit, asked.allowed, asked.event) == ("cpu", 60, rig.told.index("fired 1"))
    assert await rig.heartbeat(begun) == [True]
    await rig.signal("s", 1, "s1")
    await rig.complete(begun, "done")
    assert rig.told[-3:] == ["signal s1", "outcome 1", "aborted cpu"]
    assert (rig.status, rig.logs) == ("aborted", [])


async def test_an_aborted_run_gives_begun_calls_30_s(rig: Rig) -> None:
    await rig.start(f"g.echo({{}}); await sleep(5); {ENDLESS}", limits=LOOP)
    (begun,) = await rig.claim(1)
    await rig.advance(5)
    await rig.heartbeat(begun)
    await rig.advance(30_000)
    assert rig.told[-2:] == ["outcome 1 OutcomeUnknownError", "aborted cpu"]


async def test_a_limit_among_forgotten_handlers_aborts_a_run_that_had_returned(rig: Rig) -> None:
    await rig.start(f"g.echo({{}}).then(() => {{ {ENDLESS} }}); return 1;", limits=LOOP)
    await rig.answer(1)
    assert (rig.status, rig.told[-2:]) == ("aborted", ["cancel limit", "aborted cpu"])
