"""The worker against the tasks protocol, undisturbed and with every kind of lost message."""

import asyncio
import threading
from typing import Any

import pytest
import rewind
from rewind import AsyncRewind, ToolContext, ToolError, tool

from tests.sdk_python.fake_tasks import FakeTasks


@tool
async def add(a: int, b: int = 1) -> int:
    return a + b


async def test_calls_are_served_and_their_outcomes_recorded(tasks: FakeTasks, client: AsyncRewind) -> None:
    for n in range(5):
        await tasks.offer("add", {"a": n})
    async with client.worker(tools=[add], toolset="math"):
        await tasks.settled(5)
    assert [o.outcome for o in tasks.offers] == [("complete", n + 1) for n in range(5)]
    assert tasks.claims[0]["toolset"] == "math"
    assert tasks.claims[0]["tools"] == ["add"]


async def test_a_run_of_sequential_calls_costs_one_exchange_a_call(
    tasks: FakeTasks, client: AsyncRewind
) -> None:
    steps = 40

    def next_call(_: Any) -> None:
        if len(tasks.offers) < steps:
            task = asyncio.ensure_future(tasks.offer("add", {"a": 1}))
            pending.add(task)

    pending: set[asyncio.Future[Any]] = set()
    tasks.on_settled = next_call
    await tasks.offer("add", {"a": 1})
    worker = client.worker(tools=[add], max_slots=10)
    async with worker:
        await tasks.settled(steps)
    assert worker.counters.executed == steps
    assert len(tasks.server.requests) <= steps + 6


async def test_never_more_calls_than_slots(tasks: FakeTasks, client: AsyncRewind) -> None:
    running = 0
    most = 0
    gate = asyncio.Event()

    @tool(name="slow", input_schema={"type": "object"})
    async def slow(_: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    for _ in range(30):
        await tasks.offer("slow")
    async with client.worker(tools=[slow], max_slots=7):
        await tasks.until(lambda: sum(o.claim_id is not None for o in tasks.offers) == 7)
        assert tasks.most_leased == 7
        gate.set()
        await tasks.settled(30)
    assert most <= 7
    assert tasks.most_leased <= 7


async def test_claims_promise_no_more_than_the_free_slots(tasks: FakeTasks, client: AsyncRewind) -> None:
    """Tools end one by one, so that several claims wait at the same time, each for the slots it freed."""
    gates = [asyncio.Event() for _ in range(5)]

    @tool
    async def wait_for(n: int) -> int:
        await gates[n].wait()
        return n

    for n in range(5):
        await tasks.offer("wait_for", {"n": n})
    async with client.worker(tools=[wait_for], max_slots=5, lanes=4):
        await tasks.until(lambda: all(o.claim_id for o in tasks.offers))
        for n, gate in enumerate(gates):
            gate.set()
            await tasks.settled(n + 1)
        await tasks.until(lambda: len(tasks.claims) >= 5)
    assert tasks.most_promised == 5


async def test_a_slow_call_holds_up_no_other(tasks: FakeTasks, client: AsyncRewind) -> None:
    gate = asyncio.Event()

    @tool
    async def slow() -> None:
        await gate.wait()

    await tasks.offer("slow")
    async with client.worker(tools=[slow, add], max_slots=2):
        for n in range(10):
            offer = await tasks.offer("add", {"a": n})
            await tasks.until(lambda offer=offer: offer.outcome is not None)
        assert tasks.offers[0].outcome is None
        gate.set()
    assert tasks.offers[0].outcome == ("complete", None)


async def test_an_outcome_is_reported_while_every_lane_waits(tasks: FakeTasks, client: AsyncRewind) -> None:
    """Three tools end one after the other with one lane: the second outcome can't wait for the long poll."""
    gates = [asyncio.Event() for _ in range(3)]

    @tool
    async def wait_for(n: int) -> int:
        await gates[n].wait()
        return n

    for n in range(3):
        await tasks.offer("wait_for", {"n": n})
    async with client.worker(tools=[wait_for], max_slots=3, lanes=1, wait_s=60):
        await tasks.until(lambda: all(o.claim_id for o in tasks.offers))
        for n, gate in enumerate(gates):
            gate.set()
            await tasks.settled(n + 1)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ToolError("no seat left"), {"message": "no seat left"}),
        (
            ToolError("no seat left", code="sold_out", data={"left": 0}, retryable=False),
            {"message": "no seat left", "code": "sold_out", "data": {"left": 0}, "retryable": False},
        ),
        (ToolError("x", data=object), {"message": "x", "data": "<class 'object'>"}),
        (ToolError("half \ud800 pair"), {"message": "half ? pair"}),
        (ValueError("bad value"), {"message": "bad value"}),
        (KeyError(), {"message": "KeyError"}),
        (SystemExit(3), {"message": "3"}),
        (asyncio.CancelledError(), {"message": "the tool was cancelled", "code": "cancelled"}),
    ],
)
async def test_what_a_tool_raises_fails_its_call(
    tasks: FakeTasks, client: AsyncRewind, raised: BaseException, expected: dict[str, Any]
) -> None:
    @tool
    async def book() -> None:
        raise raised

    await tasks.offer("book")
    await tasks.offer("add", {"a": 1})
    async with client.worker(tools=[book, add]):
        await tasks.settled(2)
    assert tasks.offers[0].outcome == ("fail", expected)
    assert tasks.offers[1].outcome == ("complete", 2)


async def test_arguments_and_results_that_do_not_fit_the_types(tasks: FakeTasks, client: AsyncRewind) -> None:
    @tool
    def shout(text: str) -> str:
        return 3 if text == "three" else text.upper()  # type: ignore[return-value]

    @tool
    def odd() -> Any:
        return {"set": {1}, "self": object()}

    for args in ({"text": 1}, {"text": "a", "extra": 1}, {}, {"text": "three"}, {"text": "ok"}):
        await tasks.offer("shout", args)
    await tasks.offer("odd")
    async with client.worker(tools=[shout, odd]):
        await tasks.settled(6)
    codes = [o.outcome[1]["code"] if o.outcome[0] == "fail" else o.outcome[1] for o in tasks.offers]
    assert codes == ["invalid_arguments"] * 3 + ["invalid_result", "OK", "invalid_result"]
    assert "text: Input should be a valid string" in tasks.offers[0].outcome[1]["message"]
    assert "extra: Extra inputs are not permitted" in tasks.offers[1].outcome[1]["message"]


async def test_plain_functions_run_in_threads_side_by_side(tasks: FakeTasks, client: AsyncRewind) -> None:
    together = threading.Barrier(3)

    @tool
    def meet() -> str:
        together.wait(10)
        return threading.current_thread().name

    for _ in range(3):
        await tasks.offer("meet")
    async with client.worker(tools=[meet], max_slots=3):
        await tasks.settled(3)
    assert len({o.outcome[1] for o in tasks.offers}) == 3


async def test_the_context_tells_about_the_call(tasks: FakeTasks, client: AsyncRewind) -> None:
    @tool(name="crm.whoami")
    async def whoami(ctx: ToolContext) -> list[Any]:
        return [ctx.run, ctx.namespace, ctx.call, ctx.attempt, ctx.idempotency_key, ctx.labels, ctx.tool]

    await tasks.offer("crm.whoami", run="run-9")
    async with client.worker(tools=[whoami]):
        await tasks.settled(1)
    expected = ["run-9", "alice", 1, 1, "key-1", {"team": "blue"}, "crm.whoami"]
    assert tasks.offers[0].outcome == ("complete", expected)


async def test_a_deferred_call_is_completed_later(tasks: FakeTasks, client: AsyncRewind) -> None:
    kept: list[str] = []

    @tool
    async def ask_user(question: str, ctx: ToolContext) -> str | rewind.Deferred:
        kept.append(ctx.token)
        return ctx.defer(expires="2d")

    await tasks.offer("ask_user", {"question": "ok?"})
    async with client.worker(tools=[ask_user]):
        await tasks.until(lambda: tasks.offers[0].deferred)
    assert tasks.server.requests[-1].method == "POST"
    verdict = await client.tasks.complete(kept[0], "yes")
    assert verdict["ok"]
    assert tasks.offers[0].outcome == ("complete", "yes")


async def test_heartbeats_keep_leases_and_bring_cancellations(tasks: FakeTasks, client: AsyncRewind) -> None:
    reasons: list[str | None] = []

    @tool
    async def long_one(ctx: ToolContext) -> str:
        await ctx.signal.wait()
        reasons.append(ctx.signal.reason)
        return "stopped early"

    @tool
    def long_two(ctx: ToolContext) -> str:
        assert ctx.signal.wait_blocking(20)
        reasons.append(ctx.signal.reason)
        return "stopped early"

    tasks.lease_ms = 60
    first, second = await tasks.offer("long_one"), await tasks.offer("long_two")
    async with client.worker(tools=[long_one, long_two]):
        await tasks.until(lambda: any({first.token, second.token} <= set(beat) for beat in tasks.heartbeats))
        first.stop = second.stop = True
        await tasks.settled(2)
    assert reasons == ["cancelled", "cancelled"]
    assert first.outcome == ("complete", "stopped early")


async def test_a_lost_lease_is_told_to_the_tool(tasks: FakeTasks, client: AsyncRewind) -> None:
    over = asyncio.Event()

    @tool
    async def long_one(ctx: ToolContext) -> None:
        await ctx.signal.wait()
        assert ctx.signal.reason == "lost"
        over.set()

    tasks.lease_ms = 60
    offer = await tasks.offer("long_one")
    async with client.worker(tools=[long_one]):
        await tasks.until(lambda: bool(tasks.heartbeats))
        offer.lost = True
        async with asyncio.timeout(20):
            await over.wait()
    assert offer.outcome is None
