"""Calls of workflows without V8: puppets own the parents and the children, dispatchers come and go."""

import asyncio
from typing import Any

import pytest

from app.dispatcher.children import DEPTH_MAX, child_id
from app.scheduler.due import LOST
from app.scheduler.loop import fire_due
from sandbox.journal.canonical import canonical_text, value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import (
    EntryType,
    FailRun,
    ScheduleToolCall,
    ScriptError,
    ToolCallCompleted,
    ToolPolicy,
)
from sandbox.journal.ids import RunId, TimeMs
from sandbox.store.interface import EventAppend, Guard, Route
from sandbox.store.postgres.connection import acquired
from tests.app.dispatcher.test_loop import crash, dispatching, outcome, outcomes
from tests.e2e.stack import eventually
from tests.fixtures.api import SCRIPT, Api, Puppet
from tests.fixtures.database import Clock


async def register(api: Api, name: str = "onboard", script: str = SCRIPT, **fields: Any) -> dict[str, Any]:
    answer = await api.call("PUT", f"/v1/workflows/{name}", json={"script": script, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def parent_of(api: Api, **start: Any) -> tuple[str, Puppet]:
    """A run whose toolset lists the workflow `onboard`."""
    await register(api)
    answer = await api.call("POST", "/v1/toolsets", json={"name": "flows", "workflows": ["onboard"]})
    assert answer.status_code in {200, 201}, answer.text
    run = (await api.start(toolset="flows", **start))["id"]
    return run, await api.puppet(run)


async def call(
    puppet: Puppet, api: Api, args: Any = None, tool: str = "workflows.onboard", key: str | None = None
) -> int:
    """`key`: of the call of an earlier run that a fork goes on with."""
    puppet._calls += 1
    body = ScheduleToolCall(
        puppet._calls,
        tool,
        value_of({} if args is None else args),
        ToolPolicy(idempotent=True),
        idempotency_key=key,
    )
    await puppet.append(body, n=puppet._calls, name=tool, route=Route.DISPATCHER, idempotent=True)
    api.hints.send("api", {"k": "dispatch"})
    return puppet._calls


async def view(api: Api, run: str) -> dict[str, Any]:
    return dict((await api.call("GET", f"/v1/runs/{run}?namespace=acme")).json())


async def children(api: Api, run: str, count: int = 1) -> list[str]:
    async def look() -> list[str] | None:
        found = (await view(api, run))["children"]
        return found if len(found) >= count else None

    found: list[str] = await eventually(look, what="the children")
    return found


async def entries(api: Api, run: str, kind: str) -> list[dict[str, Any]]:
    found = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
    return [entry for entry in found.json()["data"] if entry["type"] == kind]


async def held(api: Api, run: str) -> dict[str, Any]:
    """What the run waits for, once that is a child."""

    async def look() -> dict[str, Any] | None:
        waits = (await view(api, run))["waiting_for"]
        return next((wait for wait in waits if wait["kind"] == "child_run"), None)

    found: dict[str, Any] = await eventually(look, what="a child that is waited for")
    return found


async def test_a_call_waits_for_its_child(api: Api) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api, {"a": 1})
        waiting = await held(api, run)
        (child,) = await children(api, run)
        assert (waiting["run"], waiting["call"], waiting["tool"], waiting["line"]) == (
            child,
            1,
            "workflows.onboard",
            3,
        )
        shown = await view(api, child)
        assert shown["parent"] == {"run": run, "kind": "workflow", "call": 1}
        assert (shown["input"], shown["workflow"], shown["status"]) == ({"a": 1}, "onboard", "active")
        own = await api.puppet(child)
        assert await outcome(api, run) == []
        output = {"x": "y" * 100_000}
        await api.services.runs.values.store(own._claimed.namespace, canonical_text(output))  # type: ignore[union-attr]
        await own.complete(output)
        (entry,) = await outcomes(api, run)
        assert (entry["call"], entry["attempts"], entry["result"]["bytes"]) == (1, 1, 100_008)
        value = await api.call("GET", f"/v1/runs/{run}/values/{entry['result']['sha256']}?namespace=acme")
        assert value.json() == {"x": "y" * 100_000}
        assert (await view(api, run))["waiting_for"] == []


async def test_a_started_child_answers_with_its_id_at_once(api: Api) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api, {"a": 1}, "workflows.onboard.start")
        (entry,) = await outcomes(api, run)
        (child,) = await children(api, run)
        assert entry["result"]["value"] == {"id": child}
        await (await api.puppet(child)).complete(1)
        await puppet.stop_calls()
        await eventually(lambda: _none_left(api), what="an empty outbox")
        assert len(await outcome(api, run)) == 1


async def _none_left(api: Api) -> bool:
    async with acquired(api.store.pool) as connection:
        return not await connection.fetchval("select count(*) from child_outbox")


FAILURE = ScriptError("RangeError", "cannot onboard nobody", code="nobody", line=3, column=1)
ENDINGS = {
    "failed": ("ToolError", "nobody", "cannot onboard nobody"),
    "cancelled": ("CancelledError", None, "the run of the workflow `onboard` was cancelled: user"),
}


@pytest.mark.parametrize("ending", ENDINGS)
async def test_how_a_child_ended_is_the_failure_of_the_call(api: Api, ending: str) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        (child,) = await children(api, run)
        own = await api.puppet(child)
        if ending == "failed":
            await own.fail(FAILURE)
        else:
            assert (
                await api.call("POST", f"/v1/runs/{child}/cancel?namespace=acme", json={})
            ).status_code == 202
            await own.cancelled("user", delivered=1)
        (entry,) = await outcomes(api, run)
        error = entry["error"]
        assert (error["name"], error["code"], error["message"]) == ENDINGS[ending]
        data = error["data"]["value"]
        assert data["run"] == child
        if ending == "failed":
            assert data == {
                "run": child,
                "name": "RangeError",
                "message": "cannot onboard nobody",
                "code": "nobody",
            }


async def test_what_cannot_be_started_is_a_failure_that_says_why(api: Api) -> None:
    api.desk.schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    run, puppet = await parent_of(api, input={"n": 1})
    async with dispatching(api):
        await call(puppet, api, {"n": "one"})
        (entry,) = await outcomes(api, run)
        assert entry["error"]["code"] == "invalid_arguments"
        assert "n" in entry["error"]["message"]
        async with acquired(api.store.pool) as connection:
            await connection.execute(
                "update run_facts set parent = $2 where run_id = $1",
                run,
                f'{{"run": "{run}", "kind": "fork", "depth": {DEPTH_MAX}}}',
            )
        await call(puppet, api, {"n": 1})
        entry = (await outcomes(api, run, 2))[1]
        assert entry["error"]["name"] == "ToolError"
        assert f"at most {DEPTH_MAX} deep" in entry["error"]["message"]
    assert (await view(api, run))["children"] == []


async def test_a_child_counts_as_a_run(api: Api) -> None:
    run, puppet = await parent_of(api)
    limited = await api.call("PATCH", "/v1/namespaces/acme/quotas", json={"active_runs": 1})
    assert limited.status_code == 200, limited.text
    async with dispatching(api):
        await call(puppet, api)
        (entry,) = await outcomes(api, run)
    error = entry["error"]
    assert (error["name"], error["code"], error["retryable"]) == ("ToolError", "rate_limited", True)
    assert "active" in error["message"]
    assert (await view(api, run))["children"] == []


async def test_a_call_that_is_told_to_stop_cancels_its_child(api: Api) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        child = (await held(api, run))["run"]
        own = await api.puppet(child)
        await puppet.stop_calls()
        (asked,) = await eventually(
            lambda: entries(api, child, "cancel_requested"), what="the child's cancel"
        )
        assert (asked["reason"], asked["by"]) == ("parent", f"run:{run}")
        await own.cancelled("parent", delivered=1)
        (entry,) = await outcomes(api, run)
        assert entry["error"]["name"] == "CancelledError"


async def test_children_of_a_run_that_ended_without_them_are_cancelled(own_api: Api, clock: Clock) -> None:
    """No dispatcher was there while the run was told to stop: it ended, and the children are cancelled later."""
    api = own_api
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        await call(puppet, api, None, "workflows.onboard.start")
        await outcomes(api, run)
        awaited = (await held(api, run))["run"]
    begun = next(child for child in await children(api, run, 2) if child != awaited)
    await puppet.stop_calls()
    clock.advance(30_001)
    await fire_due(api.store)
    assert (await outcome(api, run))[1]["error"]["name"] == "OutcomeUnknownError"
    await puppet.append(FailRun(FAILURE))
    assert (await view(api, run))["status"] == "failed"
    async with dispatching(api):
        await eventually(lambda: entries(api, awaited, "cancel_requested"), what="the child's cancel")
    assert await entries(api, begun, "cancel_requested") == []


async def test_wherever_a_dispatcher_dies_there_is_one_child(own_api: Api, clock: Clock) -> None:
    api = own_api
    run, puppet = await parent_of(api)
    starter = api.services.call_maker._children
    begin = starter._store.start_child
    seen: set[str] = set()

    async def dies_before(*_: Any, **__: Any) -> Any:
        raise asyncio.CancelledError()

    async def dies_after(*args: Any, **options: Any) -> Any:
        await begin(*args, **options)
        raise asyncio.CancelledError()

    for number, (tool, death) in enumerate(
        (tool, death)
        for tool in ("workflows.onboard", "workflows.onboard.start")
        for death in (dies_before, dies_after)
    ):
        starter._store.start_child = death  # type: ignore[method-assign]
        async with dispatching(api) as first:
            made = await call(puppet, api, None, tool)
            await eventually(lambda made=made: _claimed(api, run, made), what="the claim")
            await crash(first)
        starter._store.start_child = begin  # type: ignore[method-assign]
        clock.advance(30_001)
        await fire_due(api.store)
        async with dispatching(api):
            found = await children(api, run, number + 1)
            (child,) = set(found) - seen
            seen.add(child)
            await (await api.puppet(child)).complete(1)
            told = await outcomes(api, run, number + 1)
    assert len(await children(api, run, 4)) == 4
    assert sorted(entry["call"] for entry in told) == [1, 2, 3, 4]


async def _claimed(api: Api, run: str, call: int) -> bool:
    async with acquired(api.store.pool) as connection:
        return bool(
            await connection.fetchval(
                "select attempt from pending where run_id = $1 and kind = 0 and n = $2 and attempt > 0",
                run,
                call,
            )
        )


async def test_an_end_that_nobody_told_is_told_once(own_api: Api) -> None:
    """The dispatcher died before, or after, it told: the next one tells, and a second time changes nothing."""
    api = own_api
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        child = (await held(api, run))["run"]
    await (await api.puppet(child)).complete(7)
    (news,) = await api.store.read_child_news(10)
    assert (news.run, news.orphaned) == (child, False)
    await api.services.children._handle(news)
    await api.services.children._handle(news)
    (entry,) = await outcome(api, run)
    assert entry["result"]["value"] == 7
    assert len(await api.store.read_child_news(10)) == 1
    await api.services.children.handle()
    assert await api.store.read_child_news(10) == []
    assert len(await outcome(api, run)) == 1


@pytest.mark.parametrize("already", [True, False], ids=["which has ended", "which is still at work"])
async def test_a_fork_goes_on_with_the_child_whose_outcome_its_source_has_lost(
    api: Api, *, already: bool
) -> None:
    source, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        child = (await held(api, source))["run"]
        own = await api.puppet(child)
        assert own._claimed is not None
        lost = ToolCallCompleted(1, None, LOST, attempts=1)
        await api.store.append_event(
            EventAppend(
                own._claimed.namespace,
                RunId(source),
                EntryType.TOOL_CALL_COMPLETED,
                encode_body(lost),
                Guard.CALL,
                n=1,
                attempt=1,
            )
        )
        await puppet.complete(None)
        if already:
            await own.complete({"of": "the child"})
            await eventually(lambda: _none_left(api), what="an empty outbox")
        fork = (await api.start(toolset="flows"))["id"]
        await call(await api.puppet(fork), api, key=f"{source}/1")
        if not already:
            assert (await held(api, fork))["run"] == child
            await own.complete({"of": "the child"})
        (entry,) = await outcomes(api, fork)
        assert entry["result"]["value"] == {"of": "the child"}
        assert (await view(api, fork))["children"] == []
        assert (await view(api, source))["children"] == [child]
        (known,) = await outcome(api, source)
        assert known["error"]["name"] == "OutcomeUnknownError"


async def test_a_parent_waits_for_a_quarantined_child(api: Api) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        child = (await held(api, run))["run"]
        own = await api.puppet(child)
        assert own._claimed is not None
        await own._owner.quarantine(own._claimed.namespace, RunId(child), {"code": "divergence"})
        assert (await view(api, child))["status"] == "quarantined"
        await api.services.children.handle()
        assert (await view(api, run))["waiting_for"][0]["run"] == child
        assert await outcome(api, run) == []


async def test_a_claim_that_is_called_like_a_child_gets_nothing(api: Api) -> None:
    run, puppet = await parent_of(api)
    async with dispatching(api):
        await call(puppet, api)
        child = (await held(api, run))["run"]
        claimed = await api.call("POST", "/v1/tasks/claim", json={"max": 10, "claim_id": child})
        assert claimed.json() == {"tasks": []}
        assert (await held(api, run))["run"] == child


def test_ids_of_children_keep_the_order_of_their_calls() -> None:
    run = RunId("01890000-0000-7000-8000-000000000000")
    ids = [child_id(run, number, TimeMs(1_700_000_000_000)) for number in range(1, 200)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {found[14] for found in ids} == {"7"}
    assert child_id(run, 1, TimeMs(1)) != child_id(
        RunId("01890000-0000-7000-8000-000000000001"), 1, TimeMs(1)
    )
