"""The dispatcher against servers that hang, die and lie, and against its own death."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.dispatcher.loop import SERVER_MAX, Dispatcher
from app.dispatcher.mcp import Servers
from app.scheduler.loop import fire_due
from sandbox.journal.canonical import value_of
from sandbox.journal.entries import ScheduleToolCall, ToolPolicy
from sandbox.store.interface import Route
from tests.e2e.stack import eventually
from tests.fixtures.api import Api, Puppet
from tests.fixtures.database import Clock
from tests.fixtures.hostile_mcp import HostileServer

IDEMPOTENT = {"readOnlyHint": True}


@contextlib.asynccontextmanager
async def dispatching(api: Api) -> AsyncIterator[Dispatcher]:
    """A dispatcher of its own on the api's services."""
    stop = asyncio.Event()
    servers: Servers = api.services.toolsets.servers._servers
    maker, children = api.services.call_maker, api.services.children
    dispatcher = Dispatcher(maker, children, store=api.store, servers=servers, hints=api.hints)
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        yield dispatcher
    finally:
        for flight in list(dispatcher._flights.values()):
            flight.drop()
        stop.set()
        await running


async def crash(dispatcher: Dispatcher) -> None:
    """As kill -9 would: what is in the air is never heard of again, and its leases stay."""
    for flight in list(dispatcher._flights.values()):
        assert flight.task is not None
        flight.task.cancel()
        await asyncio.gather(flight.task, return_exceptions=True)


async def pin(api: Api, *urls: str, name: str = "support", **fields: Any) -> dict[str, Any]:
    mcp = [{"name": f"s{index}", "url": url, **fields} for index, url in enumerate(urls)]
    answer = await api.call("POST", "/v1/toolsets", json={"name": name, "mcp": mcp})
    assert answer.status_code in {200, 201}, answer.text
    return dict(answer.json())


async def begin(api: Api, namespace: str = "acme", toolset: str = "support") -> tuple[str, Puppet]:
    run = (await api.start(namespace, toolset=toolset))["id"]
    return run, await api.puppet(run)


async def call(puppet: Puppet, api: Api, tool: str, args: Any = None, **draft: Any) -> int:
    """As a script's call of an MCP tool is recorded and told."""
    puppet._calls += 1
    number = puppet._calls
    await puppet.append(
        ScheduleToolCall(number, tool, value_of({} if args is None else args), ToolPolicy()),
        n=number,
        name=tool,
        route=Route.DISPATCHER,
        **draft,
    )
    api.hints.send("api", {"k": "dispatch"})
    return number


async def outcome(api: Api, run: str, namespace: str = "acme") -> list[dict[str, Any]]:
    found = await api.call("GET", f"/v1/runs/{run}/journal?namespace={namespace}")
    return [entry for entry in found.json()["data"] if entry["type"] == "tool_call_completed"]


async def outcomes(api: Api, run: str, count: int = 1, namespace: str = "acme") -> list[dict[str, Any]]:
    async def recorded() -> list[dict[str, Any]] | None:
        found = await outcome(api, run, namespace)
        return found if len(found) >= count else None

    found: list[dict[str, Any]] = await eventually(recorded, what="the outcomes", within_s=30)
    return found


def shown(entry: dict[str, Any]) -> tuple[Any, ...]:
    error = entry.get("error")
    return (entry,) if error is None else (error["name"], error["code"], error["retryable"])


MISBEHAVIOUR = {
    "die": ("unreachable", False), "cut": ("unreachable", False), "garbage": ("invalid_result", False),
    "html": ("invalid_result", False), "wrong_shape": ("invalid_result", False), "accepted": ("invalid_result", False),
    "redirect": ("unreachable", False), "huge": ("too_large", False), "sse_die": ("unreachable", False),
    "sse_garbage": ("invalid_result", False), "sse_huge": ("too_large", False), "rpc_error": ("tool_failed", False),
    "unknown": ("tool_removed", False), "compressed": ("invalid_result", False), "status_400": ("unreachable", False),
    "status_401": ("unauthorized", False), "status_403": ("unauthorized", False), "status_404": ("unreachable", False),
    "status_429": ("rate_limited", True), "status_500": ("tool_failed", False), "status_503": ("unreachable", False),
    "surrogate": ("invalid_result", False), "nan": ("invalid_result", False), "input_required": ("invalid_result", False),
    "schema": ("invalid_result", False), "unstructured": ("invalid_result", False), "hang": ("timeout", True),
}  # fmt: skip


async def test_each_misbehaviour_has_its_code(api: Api) -> None:
    async with HostileServer() as server, dispatching(api):
        await pin(api, server.url)
        run, puppet = await begin(api)
        numbers = {}
        for mode in MISBEHAVIOUR:
            limit = {"timeout_ms": 300} if mode == "hang" else {"timeout_ms": 60_000}
            numbers[await call(puppet, api, f"s0.{mode}", **limit)] = mode
        found = await outcomes(api, run, len(MISBEHAVIOUR))
        errors = {numbers[entry["call"]]: shown(entry) for entry in found}
        assert errors == {mode: ("ToolError", *expected) for mode, expected in MISBEHAVIOUR.items()}
        # The server's own session answers 400 and 404 as if it had forgotten us: those alone are asked twice.
        again = {mode for mode, count in server.calls.items() if count > 1}
        assert again <= {"status_404", "status_400"}


async def test_deep_json_stays_text(api: Api) -> None:
    async with HostileServer() as server, dispatching(api):
        await pin(api, server.url)
        run, puppet = await begin(api)
        await call(puppet, api, "s0.deep")
        (entry,) = await outcomes(api, run)
        assert entry["result"]["value"].startswith("[[[[")


async def test_a_hanging_server_delays_no_other(api: Api) -> None:
    async with HostileServer() as hanging, HostileServer() as fine, dispatching(api) as dispatcher:
        await pin(api, hanging.url, fine.url)
        stuck, stuck_puppet = await begin(api)
        for _ in range(SERVER_MAX + 10):
            await call(stuck_puppet, api, "s0.hang")
        await asyncio.wait_for(hanging.hanging.wait(), 30)
        run, puppet = await begin(api, "other")
        for number in range(3):
            await call(puppet, api, "s1.fine")
            await outcomes(api, run, number + 1, "other")
        assert await outcome(api, stuck) == []
        assert len(dispatcher._flights) == hanging.calls["hang"] == SERVER_MAX


async def test_namespaces_take_turns_at_a_server(api: Api) -> None:
    async with HostileServer() as server:
        await pin(api, server.url)
        busy, busy_puppet = await begin(api, "busy")
        for _ in range(SERVER_MAX + 5):
            await call(busy_puppet, api, "s0.hang")
        run, puppet = await begin(api, "quiet")
        await call(puppet, api, "s0.fine")
        async with dispatching(api):
            await outcomes(api, run, 1, "quiet")
        assert await outcome(api, busy, "busy") == []


async def test_a_session_that_the_server_forgot_is_made_anew(api: Api) -> None:
    async with HostileServer() as server, dispatching(api):
        await pin(api, server.url)
        run, puppet = await begin(api)
        await call(puppet, api, "s0.fine")
        await outcomes(api, run)
        server.session = "s2"
        await call(puppet, api, "s0.fine")
        found = await outcomes(api, run, 2)
        assert [entry["result"]["value"] for entry in found] == ["fine", "fine"]
        assert server.calls["fine"] == 2


async def test_a_dead_dispatcher_repeats_only_what_may_be(own_api: Api, clock: Clock) -> None:
    api = own_api
    async with HostileServer() as server:
        await pin(api, server.url)
        run, puppet = await begin(api)
        async with dispatching(api) as first:
            lost = await call(puppet, api, "s0.hang")
            kept = await call(puppet, api, "s0.hang", idempotent=True)
            await eventually(lambda: _same(server.calls["hang"], 2), what="both calls at the server")
            await crash(first)
        clock.advance(30_001)
        await fire_due(api.store)
        async with dispatching(api):
            await eventually(lambda: _same(server.calls["hang"], 3), what="the repeated call")
            (entry,) = await outcomes(api, run)
            assert (entry["call"], entry["attempts"]) == (lost, 1)
            assert entry["error"]["name"] == "OutcomeUnknownError"
            keys = [header for header in server.headers if header]
            assert keys
        assert kept == 2
        assert server.calls["hang"] == 3


async def test_a_claim_whose_answer_was_lost_is_given_back(api: Api) -> None:
    """It was never sent: the call has not begun, and may be claimed by anybody."""
    async with HostileServer() as server:
        await pin(api, server.url)
        run, puppet = await begin(api)
        await call(puppet, api, "s0.fine")
        async with dispatching(api) as dispatcher:
            await outcomes(api, run)
            await call(puppet, api, "s0.hang")
            await asyncio.wait_for(server.hanging.wait(), 30)
            (flight,) = dispatcher._flights.values()
            await crash(dispatcher)  # its row is still leased to this dispatcher
            async with dispatcher._claiming:
                held = await api.store.renew_calls(dispatcher._id, 30_000)
            assert list(held) == [flight.call.key]
            dispatcher._look = (
                asyncio.Event()
            )  # hints do not reach it: only the release offers the call again
            await dispatcher._renew()
            await eventually(lambda: _same(server.calls["hang"], 2), what="the released call, sent")


async def test_a_call_that_is_told_to_stop(own_api: Api) -> None:
    api = own_api
    async with HostileServer() as server, dispatching(api):
        await pin(api, server.url)
        run, puppet = await begin(api)
        number = await call(puppet, api, "s0.hang")
        await asyncio.wait_for(server.hanging.wait(), 30)
        row = await api.store.pool.system.fetchrow(
            "update pending set stopping = true where run_id = $1 and n = $2 and kind = 0 returning n",
            run,
            number,
        )
        assert row is not None
        (entry,) = await outcomes(api, run)
        assert entry["error"]["name"] == "OutcomeUnknownError"
        await eventually(lambda: _same(server.cancelled, 1), what="the server told to stop")


async def test_secrets_are_sent_and_are_nowhere_else(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with HostileServer() as server, dispatching(api):
        for name, value, namespace in (
            ("k", "org-Secret", None),
            ("k", "acme-Secret", "acme"),
            ("h", "head-Secret", None),
        ):
            body = {"value": value} | ({} if namespace is None else {"namespace": namespace})
            await api.call("PUT", f"/v1/secrets/{name}", json=body)
        shown = await pin(
            api, server.url, auth={"secret": "k"}, headers={"X-Key": {"secret": "h"}, "X-Plain": "plain"}
        )
        assert server.headers[-1]["authorization"] == "Bearer org-Secret"
        token = await api.token("acme")
        seen = await api.call("GET", "/v1/toolsets/support", secret=token)
        assert all(
            word not in seen.text for word in ("127.0.0.1", "Secret", "x-key", "X-Key", "plain", "auth")
        )
        assert seen.json()["tools"] == shown["tools"]
        run, puppet = await begin(api)
        for mode in ("fine", "die", "status_500"):
            await call(puppet, api, f"s0.{mode}")
        await outcomes(api, run, 3)
        sent = [headers for headers in server.headers if headers.get("authorization") == "Bearer acme-Secret"]
        assert sent
        assert {(headers["x-key"], headers["x-plain"]) for headers in sent} == {("head-Secret", "plain")}
        other, other_puppet = await begin(api, "other")
        await call(other_puppet, api, "s0.fine")
        await outcomes(api, other, 1, "other")
        assert server.headers[-1]["authorization"] == "Bearer org-Secret"
        journal = await api.call("GET", f"/v1/runs/{run}/journal?namespace=acme")
        stored = await api.store.pool.system.fetch("select definition::text as text from toolset_versions")
        assert "Secret" not in journal.text + caplog.text + "".join(row["text"] for row in stored)
        assert server.url not in "".join(row["text"] for row in stored)


async def test_a_missing_secret_is_named_not_sent(api: Api) -> None:
    async with HostileServer() as server, dispatching(api):
        await api.call("PUT", "/v1/secrets/k", json={"value": "x"})
        await pin(api, server.url, auth={"secret": "k"})
        await api.call("DELETE", "/v1/secrets/k")
        run, puppet = await begin(api)
        await call(puppet, api, "s0.fine")
        (entry,) = await outcomes(api, run)
        assert (entry["error"]["code"], "'k'" in entry["error"]["message"]) == ("unauthorized", True)
        assert server.calls["fine"] == 0


async def test_arguments_are_checked_before_they_are_sent(api: Api) -> None:
    async with HostileServer() as server, dispatching(api):
        server.tools[-1]["inputSchema"] = {"type": "object", "required": ["x"]}
        await pin(api, server.url)
        run, puppet = await begin(api)
        await call(puppet, api, f"s0.{server.tools[-1]['name']}", {"y": 1})
        await call(puppet, api, "s0.fine", [1])
        found = await outcomes(api, run, 2)
        assert [entry["error"]["code"] for entry in found] == ["invalid_arguments"] * 2
        assert server.calls.total() == 0


async def _same(seen: int, wanted: int) -> bool:
    return seen == wanted
