"""Questions to the sandbox: answered once, fairly handed out, and never awaited for ever."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, WorkerId
from sandbox.store.hints import HintBus
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.requests import IN_FLIGHT_MAX, RequestDesk, SandboxRequest
from tests.fixtures.keys import DATA_KEY

WORKER = WorkerId(7)


@pytest.fixture
async def desk(database_url: str, tmp_path: Path) -> AsyncIterator[RequestDesk]:
    edge = await PostgresEdge.open(database_url, data_key=DATA_KEY)
    hints = HintBus(tmp_path, "api")
    hints.start()
    yield RequestDesk(edge.pool, hints, edge.keys)
    hints.close()
    await edge.close()


def ask(desk: RequestDesk, namespace: str, timeout_ms: int = 30_000) -> asyncio.Task[bytes]:
    question = desk.ask(NamespaceId(namespace), "strip", b"?", timeout_ms=timeout_ms)
    return asyncio.create_task(question)


async def claimed(desk: RequestDesk, count: int) -> list[SandboxRequest]:
    found: list[SandboxRequest] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += await desk.claim(WORKER, count - len(found), ["strip"])
    return found


async def rows(desk: RequestDesk) -> int:
    async with desk._pool.acquire() as connection:
        return int(await connection.fetchval("select count(*) from sandbox_requests"))


async def until_open(desk: RequestDesk) -> None:
    async with asyncio.timeout(10):
        while await rows(desk) == 0:
            continue


async def test_a_question_is_answered_and_gone(desk: RequestDesk) -> None:
    asked = ask(desk, str(uuid4()))
    [request] = await claimed(desk, 1)
    assert (request.kind, request.payload) == ("strip", b"?")
    await desk.answer(request, b"!")
    assert await asyncio.wait_for(asked, 10) == b"!"
    assert await rows(desk) == 0


async def test_question_and_answer_are_sealed(desk: RequestDesk) -> None:
    namespace = NamespaceId(str(uuid4()))
    asked = asyncio.create_task(desk.ask(namespace, "strip", b"the question", timeout_ms=30_000))
    [request] = await claimed(desk, 1)
    assert request.payload == b"the question"
    async with desk._pool.acquire() as connection:
        stored = bytes(await connection.fetchval("select payload from sandbox_requests"))
        assert b"question" not in stored
        async with connection.transaction():
            await desk.answer(request, None, "the failure")
            row = await connection.fetchrow("select answer, failure from sandbox_requests")
            assert row is None or b"failure" not in row["failure"]
    with pytest.raises(Unavailable, match="the failure"):
        await asyncio.wait_for(asked, 10)


async def test_a_failure_is_unavailable(desk: RequestDesk) -> None:
    asked = ask(desk, str(uuid4()))
    [request] = await claimed(desk, 1)
    await desk.answer(request, None, "the child died")
    with pytest.raises(Unavailable, match="the child died"):
        await asyncio.wait_for(asked, 10)


async def test_nobody_answers_in_time(desk: RequestDesk) -> None:
    with pytest.raises(Unavailable, match="no worker answered"):
        await asyncio.wait_for(ask(desk, str(uuid4()), timeout_ms=1), 10)
    assert await rows(desk) == 0


async def test_a_question_lost_in_a_crash_of_postgres_is_not_awaited(desk: RequestDesk) -> None:
    asked = ask(desk, str(uuid4()))
    await claimed(desk, 1)
    async with desk._pool.acquire() as connection:
        await connection.execute("delete from sandbox_requests")  # as a crash empties an unlogged table
    with pytest.raises(Unavailable, match="crashed"):
        await asyncio.wait_for(asked, 10)


async def test_one_namespace_does_not_take_all_workers(desk: RequestDesk) -> None:
    greedy, modest = str(uuid4()), str(uuid4())
    asked = [ask(desk, greedy) for _ in range(IN_FLIGHT_MAX + 2)] + [ask(desk, modest)]
    found = await claimed(desk, IN_FLIGHT_MAX + 1)
    assert sorted(request.namespace for request in found) == sorted([greedy] * IN_FLIGHT_MAX + [modest])
    assert await desk.claim(WORKER, 10, ["strip"]) == []
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def test_a_worker_takes_only_the_kinds_it_has_room_for(desk: RequestDesk) -> None:
    asked = ask(desk, str(uuid4()))
    await until_open(desk)
    assert await desk.claim(WORKER, 10, ["test", "replay"]) == []
    [request] = await claimed(desk, 1)
    assert 0 < request.left_ms <= 30_000
    await desk.answer(request, b"!")
    assert await asyncio.wait_for(asked, 10) == b"!"


async def test_questions_of_askers_that_died_are_swept(desk: RequestDesk) -> None:
    asked = ask(desk, str(uuid4()))
    await claimed(desk, 1)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    async with desk._pool.acquire() as connection:
        await connection.execute("update sandbox_requests set deadline = deadline - 100000")
    await desk.sweep()
    assert await rows(desk) == 0
