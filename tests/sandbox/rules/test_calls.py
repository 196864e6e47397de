"""SPEC, rules of runs: Calls and Approvals, as the script and its journal see them."""

from typing import Any

import pytest

from sandbox.journal import entries as e
from sandbox.store.approvals import Decision
from tests.sandbox.rules.rig import NAMESPACE, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def decide(rig: Rig, decision: Any, call: int = 1) -> str:
    decided = e.ApprovalDecided(call, decision, by="ann", actor=e.Actor("member", "m"), reason="because")
    verdict = await rig.store.decide_approval(Decision(NAMESPACE, rig.run, "g.gated", decided))
    await rig.go()
    return verdict.outcome.value


async def test_a_gated_call_is_offered_after_its_approval_and_not_before(rig: Rig) -> None:
    await rig.start("return await g.gated({});")
    assert await rig.claim() == []
    assert await decide(rig, "approved") == "appended"
    assert await decide(rig, "denied") == "not_pending"
    await rig.answer("done")
    assert rig.output == "done"
    assert [type(entry.body).__name__ for entry in rig.entries][2:4] == [
        "ApprovalDecided",
        "ToolCallCompleted",
    ]


async def test_a_denied_call_is_completed_in_the_same_append(rig: Rig) -> None:
    await rig.start("return await g.gated({}).catch((x) => [x.name, x.tool, x.reason, x.by, x.expired]);")
    await decide(rig, "denied")
    decided, completed = rig.entries[2:4]
    assert (decided.time, completed.time) == (completed.time, decided.time)
    assert rig.bodies(e.ToolCallCompleted)[0].attempts == 0
    assert rig.output == ["ApprovalDeniedError", "g.gated", "because", "ann", False]


async def test_an_approval_that_nobody_gave_expires_in_the_same_append(rig: Rig) -> None:
    await rig.start("return await g.soon({}).catch((x) => [x.name, x.expired]);")
    await rig.advance(14_999)
    assert rig.status == "active"
    await rig.advance(1)
    assert rig.output == ["ApprovalDeniedError", True]
    (decided,) = rig.bodies(e.ApprovalDecided)
    assert decided.decision == "expired"


async def test_a_lost_call_that_may_be_repeated_is_offered_again(rig: Rig) -> None:
    await rig.start("return await g.again({});")
    (first,) = await rig.claim()
    await rig.advance(30_000)
    (again,) = await rig.claim()
    assert (first.attempt, again.attempt, again.begun_at) == (1, 2, first.begun_at)
    assert (await rig.complete(first, "late")).outcome.value == "not_pending"
    await rig.complete(again, "done")
    assert (rig.output, rig.bodies(e.ToolCallCompleted)[0].attempts) == ("done", 2)


async def test_a_lost_call_that_may_not_be_repeated_has_an_unknown_outcome(rig: Rig) -> None:
    await rig.start("return await g.echo({}).catch((x) => x.name);")
    (lost,) = await rig.claim()
    await rig.advance(29_999)
    assert rig.status == "active"
    await rig.advance(1)
    assert rig.output == "OutcomeUnknownError"
    assert (await rig.complete(lost, "late")).outcome.value == "ended"


async def test_a_call_given_back_unstarted_has_not_begun(rig: Rig) -> None:
    await rig.start("return await g.echo({});")
    (task,) = await rig.claim()
    await rig.release(task)
    (again,) = await rig.claim()
    assert (again.attempt, again.releases) == (1, 1)
    await rig.complete(again, "done")
    assert rig.output == "done"


async def test_a_timeout_counts_from_the_first_claim(rig: Rig) -> None:
    await rig.start("return await g.echo({}, { timeout: '20s' }).catch((x) => [x.name, x.code]);")
    await rig.advance(60_000)
    assert rig.status == "active"
    await rig.claim()
    await rig.advance(20_000)
    assert rig.output == ["ToolError", "timeout"]
