"""SPEC, rules of runs: Quarantined. The run is put there by an operator, as in a drill."""

import pytest

from sandbox.journal import entries as e
from sandbox.store.postgres.tasks import key_of
from tests.sandbox.rules.rig import DAY_MS, NAMESPACE, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stop(rig: Rig) -> None:
    assert await rig.store.quarantine_by_operator(NAMESPACE, rig.run, {"message": "a drill"})
    await rig.put_down()


async def release(rig: Rig) -> None:
    assert await rig.store.release_quarantined(NAMESPACE, rig.run)
    await rig.go()


async def test_everything_is_recorded_and_nothing_is_activated(rig: Rig) -> None:
    await rig.start(
        "const call = g.echo({}); const slept = sleep(10); const heard = waitForSignal('s');\n"
        "return [await call, await slept, await heard, Date.now()];"
    )
    (task,) = await rig.claim()
    await stop(rig)
    await rig.complete(task, "done")
    await rig.advance(1_000)
    await rig.signal("s", "sent", "s1")
    assert (rig.status, rig.told[-3:]) == ("quarantined", ["outcome 1", "fired 1", "signal s1"])
    await release(rig)
    assert rig.output == ["done", None, "sent", rig.entries[-2].time]


async def test_a_deadline_waits_and_counts_again_after_the_release(rig: Rig) -> None:
    await rig.start("await sleep('9d');", ttl_ms=DAY_MS)
    await stop(rig)
    await rig.advance(3 * DAY_MS)
    assert rig.told == ["started", "timer 1 sleep"]
    await release(rig)
    await rig.advance(0)
    assert rig.told[2:] == ["cancel ttl", "cancelled ttl"]


async def test_a_cancel_is_recorded_and_obeyed_after_the_release(rig: Rig) -> None:
    await rig.start("try { await sleep('9d'); } catch (error) { console.log(error.name); }")
    await stop(rig)
    await rig.cancel()
    assert rig.told[-1] == "cancel user"
    await release(rig)
    assert rig.told[-2:] == ["log CancelledError", "cancelled user"]


async def test_an_abandoned_run_settles_its_calls_and_then_ends(rig: Rig) -> None:
    await rig.start("await Promise.all([g.echo({}), g.echo({}), g.echo({}), g.gated({})]);")
    begun, deferred = await rig.claim(2)
    assert await rig.store.defer_tasks([key_of(deferred)], [None]) == [True]
    await stop(rig)
    assert await rig.store.abandon_quarantined(NAMESPACE, rig.run)
    assert not await rig.store.release_quarantined(NAMESPACE, rig.run), "it is being abandoned"
    await rig.fire()
    assert rig.told[-3:] == [f"outcome {call} CancelledError" for call in (deferred.call, 3, 4)]
    assert await rig.heartbeat(begun) == [True]
    assert await rig.claim() == []
    await rig.advance(29_999)
    assert rig.status == "quarantined"
    await rig.advance(1_000)
    assert rig.told[-2:] == ["outcome 1 OutcomeUnknownError", "aborted abandoned"]
    attempts = {body.call: body.attempts for body in rig.bodies(e.ToolCallCompleted)}
    assert attempts == {1: 1, 2: 1, 3: 0, 4: 0}
    assert rig.status == "aborted"


async def test_an_abandoned_run_without_calls_ends_at_once(rig: Rig) -> None:
    await rig.start("await sleep('9d');")
    await stop(rig)
    assert await rig.store.abandon_quarantined(NAMESPACE, rig.run)
    await rig.fire()
    assert rig.told == ["started", "timer 1 sleep", "aborted abandoned"]


async def test_a_run_stopped_before_its_start_starts_after_the_release(rig: Rig) -> None:
    await rig.start("return 'ran';", held_ms=1_000)
    await stop(rig)
    await rig.advance(5_000)
    assert rig.told == ["started"]
    await release(rig)
    assert rig.output == "ran"
