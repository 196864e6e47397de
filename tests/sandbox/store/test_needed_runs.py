"""Deletion beside what begins to need a run at the same moment, on Postgres: whoever comes second sees the first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import asyncpg
import pytest

from app.scheduler.seals import Sealer
from sandbox.journal.ids import Json, RunId
from sandbox.store.interface import StartOutcome, StartRun
from sandbox.store.postgres.children import ChildStart
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.retention import Retention
from sandbox.store.postgres.sealed import seal_start
from sandbox.store.postgres.starts import start
from tests.conformance.test_children import calling, claimed, request
from tests.e2e.stack import eventually
from tests.fixtures.stores import Bench, complete, draft, open_bench


@dataclass
class Kept:
    bench: Bench
    edge: PostgresEdge
    retention: Retention
    run: RunId
    """It has ended, is sealed and told of: whoever likes may delete it."""

    async def delete(self) -> int:
        return await self.retention.delete_runs(self.bench.namespace, [self.run])

    async def fork(self) -> StartRun:
        parent: dict[str, Json] = {"run": self.run, "kind": "fork", "depth": 0}
        asked = await self.bench.request(
            parent=parent, route="forks", idempotency_key="k", request_sha256=b"1"
        )
        return replace(asked, fork={"forked_at": asked.time})


@pytest.fixture
async def kept(database_url: str) -> AsyncIterator[Kept]:
    async with open_bench(database_url) as bench:
        assert isinstance(bench.edge, PostgresEdge)
        retention = Retention(database_url)
        try:
            yield Kept(bench, bench.edge, retention, await ended(bench, await bench.start()))
        finally:
            await retention.close()


async def ended(bench: Bench, run: RunId) -> RunId:
    owned = await bench.own(run, await bench.worker())
    assert (await owned.append(draft(complete(), 0, (await bench.record(run)).started_at))).appended
    await Sealer(bench.edge).seal_ended()  # type: ignore[arg-type]  # it is the one of Postgres
    return run


@asynccontextmanager
async def under_way(kept: Kept) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that is committed when somebody waits for it."""
    connection = await asyncpg.connect(kept.bench.url)
    try:
        async with connection.transaction():
            yield connection
            await eventually(lambda: waits(kept.bench), what="somebody who waits")
    finally:
        await connection.close()


async def waits(bench: Bench) -> bool:
    assert bench.admin is not None
    found: bool = await bench.admin.fetchval(
        "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
    )
    return found


async def test_a_run_that_is_being_forked_is_not_deleted(kept: Kept) -> None:
    async with under_way(kept) as connection:
        fork = await kept.fork()
        verdict = await start(connection, await seal_start(kept.edge.keys, fork))
        assert verdict.outcome is StartOutcome.STARTED
        deleting = asyncio.create_task(kept.delete())
    assert await deleting == 0
    assert await kept.delete() == 0, "the fork is not made yet"
    assert kept.bench.admin is not None
    await kept.bench.admin.execute("update runs set forking = false where run_id = $1", fork.run)
    assert await kept.delete() == 1


async def test_a_run_that_is_being_deleted_is_not_forked(kept: Kept) -> None:
    fork = await kept.fork()
    async with under_way(kept) as connection:
        assert await connection.fetchval("select delete_runs($1, $2)", fork.namespace, [kept.run]) == 1
        starting = asyncio.create_task(kept.edge.start_run(fork))
    assert (await starting).outcome is StartOutcome.GONE
    assert await kept.edge.get_run(fork.namespace, fork.run) is None
    assert kept.bench.admin is not None
    assert await kept.bench.admin.fetchval("select count(*) from idempotency") == 0


async def a_call_that_goes_on_with_a_child(kept: Kept) -> tuple[Any, str]:
    """As in a fork: the child was started by an earlier run, and has ended."""
    bench = kept.bench
    _, key, claim = await calling(bench)
    asked = await request(bench, key)
    await bench.edge.start_child(key, claim, asked.run, asked, awaited=False)
    kept.run = await ended(bench, asked.run)
    await bench.edge.forget_child_news(await bench.edge.read_child_news(10))
    return key, claim


async def test_a_child_that_a_call_is_given_is_not_deleted_before_its_end_is_told(kept: Kept) -> None:
    key, claim = await a_call_that_goes_on_with_a_child(kept)
    async with under_way(kept) as connection:
        arguments = (claim, *key, kept.run)
        assert await connection.fetchval("select claim_child($1,$2,$3,$4,$5)", *arguments) == "known"
        deleting = asyncio.create_task(kept.delete())
        await eventually(lambda: waits(kept.bench), what="the deletion that waits")
        await connection.execute("select hold_call($1,$2,$3,$4)", *key, kept.run)
    assert await deleting == 0
    assert [news.run for news in await kept.edge.read_child_news(10)] == [kept.run]


async def test_a_child_that_is_being_deleted_is_given_to_no_call(kept: Kept) -> None:
    key, claim = await a_call_that_goes_on_with_a_child(kept)
    async with under_way(kept) as connection:
        assert await connection.fetchval("select delete_runs($1, $2)", key[0], [kept.run]) == 1
        starting = asyncio.create_task(kept.edge.start_child(key, claim, kept.run, None, awaited=True))
    assert await starting is ChildStart.GONE
    assert await kept.edge.calls_held_by(key[0], kept.run) == []
    assert await kept.edge.started_child(key) is None, "the next claim of the call starts another"
    await kept.edge.release_calls(claim, [key])
    await claimed(kept.bench)
