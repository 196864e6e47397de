"""The worker when things go wrong: stops, lost messages, crashes, refusals."""

import asyncio
import os
import random
import signal
import threading
from collections import Counter
from typing import Any

import pytest
import rewind
from rewind import AsyncRewind, Rewind, ToolContext, ToolError, tool

from tests.sdk_python.fake_tasks import FakeTasks, Fault
from tests.sdk_python.http_server import Request


@tool
async def add(a: int, b: int = 1) -> int:
    return a + b


async def test_stopping_lets_running_tools_finish_and_releases_the_rest(
    tasks: FakeTasks, client: AsyncRewind
) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await gate.wait()
        return "done"

    await tasks.offer("slow")
    worker = client.worker(tools=[slow], max_slots=5)
    await worker.__aenter__()
    await started.wait()
    leaving = asyncio.create_task(worker.__aexit__(None, None, None))
    await tasks.until(lambda: any(claim["wait"] == 0 for claim in tasks.claims))
    late = await tasks.offer("slow")
    assert not leaving.done()
    gate.set()
    await leaving
    assert tasks.offers[0].outcome == ("complete", "done")
    assert late.claim_id is None
    assert late.outcome is None


async def test_tasks_leased_to_an_answer_that_never_arrives_are_given_back(
    tasks: FakeTasks, client: AsyncRewind
) -> None:
    await tasks.offer("add", {"a": 1})
    worker = client.worker(tools=[add])
    async with worker:
        await tasks.settled(1)
        tasks.hold_answers = lambda body: bool(body.get("wait") or body.get("claim"))
        offers = [await tasks.offer("add", {"a": n}) for n in range(3)]
        await tasks.until(lambda: any(o.claim_id for o in offers))
    assert worker.counters.released > 0
    assert all(o.claim_id is None and o.outcome is None for o in offers)


async def test_a_tool_that_does_not_stop_is_left_to_its_lease(tasks: FakeTasks, client: AsyncRewind) -> None:
    @tool
    async def endless() -> None:
        await asyncio.Event().wait()

    await tasks.offer("endless")
    worker = client.worker(tools=[endless], drain_s=0.05)
    async with worker:
        await tasks.until(lambda: worker.counters.executed == 1 or tasks.offers[0].claim_id is not None)
    assert tasks.offers[0].outcome is None


async def test_a_signal_to_the_process_drains_the_worker(tasks: FakeTasks, client: AsyncRewind) -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await gate.wait()
        return "done"

    await tasks.offer("slow")
    serving = asyncio.create_task(client.worker(tools=[slow]).run_until_signal())
    await started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await tasks.until(lambda: any(claim["wait"] == 0 for claim in tasks.claims))
    gate.set()
    await serving
    assert tasks.offers[0].outcome == ("complete", "done")


async def test_a_blocking_worker(tasks: FakeTasks) -> None:
    @tool
    def double(n: int) -> int:
        return 2 * n

    await tasks.offer("double", {"n": 21})
    done = threading.Event()

    def serve() -> None:
        with Rewind(api_key="rwk_test", base_url=tasks.url) as client, client.worker(tools=[double]):
            assert done.wait(20)

    serving = asyncio.create_task(asyncio.to_thread(serve))
    await tasks.settled(1)
    done.set()
    await serving
    assert tasks.offers[0].outcome == ("complete", 42)


async def test_a_refused_first_claim_is_raised(tasks: FakeTasks, client: AsyncRewind) -> None:
    problem = {"code": "insufficient_scope", "detail": "this token may not work"}
    tasks.fault = lambda _: Fault("refuse", 403, problem)
    with pytest.raises(rewind.PermissionDenied, match="may not work"):
        await client.worker(tools=[add])


async def test_a_server_that_is_not_there_yet(tasks: FakeTasks, client: AsyncRewind) -> None:
    await tasks.server.crash()
    async with client.worker(tools=[add]):
        await tasks.offer("add", {"a": 1})
        tasks.server.restart()
        await tasks.settled(1)


async def test_a_task_that_is_delivered_again_runs_once(tasks: FakeTasks, client: AsyncRewind) -> None:
    executed: Counter[int] = Counter()
    gate = asyncio.Event()

    @tool
    async def slow(ctx: ToolContext) -> None:
        executed[ctx.call] += 1
        await gate.wait()

    @tool
    async def quick(ctx: ToolContext) -> None:
        executed[ctx.call] += 1

    await tasks.offer("slow")
    tasks.redeliver = True
    async with client.worker(tools=[slow, quick], max_slots=3, wait_s=0.01):
        for n in range(5):
            await tasks.offer("quick")
            await tasks.settled(n + 1)
        gate.set()
        await tasks.settled(6)
    assert executed == dict.fromkeys(range(1, 7), 1)


async def test_an_outcome_that_is_refused_for_now_is_reported_again(
    tasks: FakeTasks, client: AsyncRewind
) -> None:
    tasks.refuse_once = ["internal", "unavailable"]
    for n in range(3):
        await tasks.offer("add", {"a": n})
    async with client.worker(tools=[add], wait_s=0.01):
        await tasks.settled(3)
    assert [o.outcome for o in tasks.offers] == [("complete", n + 1) for n in range(3)]


async def test_one_outcome_that_the_server_cannot_read_spoils_no_other(
    tasks: FakeTasks, client: AsyncRewind
) -> None:
    @tool(input_schema={"type": "object"})
    async def echo(args: dict[str, Any]) -> Any:
        return args

    def fault(request: Request) -> Fault | None:
        if b"poison" in request.body and request.path.endswith(("complete", "fail")):
            return Fault("refuse", 400, {"code": "invalid_request", "detail": "items[1].result: too deep"})
        return None

    tasks.fault = fault
    for args in ({"n": 1}, {"n": "poison"}, {"n": 3}):
        await tasks.offer("echo", args)
    async with client.worker(tools=[echo]):
        await tasks.settled(3)
    assert [o.outcome[0] for o in tasks.offers] == ["complete", "fail", "complete"]
    assert tasks.offers[1].outcome[1] == {"message": "items[1].result: too deep", "code": "invalid_result"}


async def test_a_result_that_is_too_large_fails_the_call(tasks: FakeTasks, client: AsyncRewind) -> None:
    @tool
    async def big(size: int) -> str:
        return "x" * size

    for size in (2_000_000, 17_000_000):
        await tasks.offer("big", {"size": size})
    async with client.worker(tools=[big]):
        await tasks.settled(2)
    assert [o.outcome[1]["code"] for o in tasks.offers] == ["too_large", "too_large"]


@pytest.mark.parametrize("seed", range(6))
async def test_lost_messages_and_crashes_lose_and_repeat_nothing(
    tasks: FakeTasks, client: AsyncRewind, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are lost, answers are lost, the server crashes: every call runs once and every outcome arrives."""
    monkeypatch.setattr("rewind.worker.delay_s", lambda *_: 0.001)
    chance = random.Random(seed)
    executed: Counter[int] = Counter()
    crashes: set[asyncio.Task[None]] = set()

    @tool(name="step", input_schema={"type": "object"})
    async def step(args: dict[str, Any], ctx: ToolContext) -> Any:
        executed[ctx.call] += 1
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if args["n"] % 7 == 0:
            raise ToolError("unlucky", code="seven")
        return args

    async def crash() -> None:
        await tasks.server.crash()
        tasks.server.restart()

    def fault(_: Request) -> Fault | None:
        roll = chance.random()
        if roll < 0.03:
            crashes.add(asyncio.create_task(crash()))
        if roll < 0.15:
            return Fault(chance.choice(["lose", "lose_answer"]))
        return Fault("refuse", 503, {"code": "unavailable", "detail": "busy"}) if roll < 0.2 else None

    tasks.fault = fault
    worker = client.worker(tools=[step], max_slots=8, lanes=3)
    async with worker:
        for n in range(120):
            await tasks.offer("step", {"n": n})
        await tasks.settled(120)
    await asyncio.gather(*crashes)
    assert executed == dict.fromkeys(range(1, 121), 1), f"seed {seed}"
    for offer in tasks.offers:
        expected = (
            ("fail", {"message": "unlucky", "code": "seven"})
            if offer.args["n"] % 7 == 0
            else ("complete", offer.args)
        )
        assert offer.outcome == expected
