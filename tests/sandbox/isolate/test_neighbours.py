"""Runs of tenants that hold a process for long, or cost it its life, are among themselves."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sandbox.isolate import pool as pools
from sandbox.isolate.api import IsolateLost, LimitExceeded, RunSetup
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool, IsolateInChild
from tests.sandbox.isolate.test_limits import started

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUICK = "async function main() { await new Promise(() => {}); }"
ENDLESS = "async function main() { for (;;) {} }"
UNSTOPPABLE = "async function main() { return 'a'.repeat(2e7).lastIndexOf('a'.repeat(1e6) + 'b'); }"  # V8 has to be killed


@pytest_asyncio.fixture(loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=2) as children:
        yield children


async def opened(pool: ChildPool, tenant: str, source: str = QUICK, *, cpu_ms: int = 300) -> IsolateInChild:
    compiled = Compiled(source, [], "main")
    return await pool.open(RunSetup("r", tenant, 1, compiled, (), cpu_ms, 128 << 20, tenant=tenant))


async def made_slow(pool: ChildPool, tenant: str, source: str = ENDLESS) -> None:
    isolate = await opened(pool, tenant, source)
    with pytest.raises(LimitExceeded):
        await isolate.deliver([started()])


@pytest.mark.parametrize("source", [ENDLESS, UNSTOPPABLE], ids=["endless", "unstoppable"])
async def test_who_was_slow_has_the_first_process_and_nobody_else_does(pool: ChildPool, source: str) -> None:
    await made_slow(pool, "hostile", source)
    for _ in range(2):
        isolate = await opened(pool, "hostile", source)
        first = pool.children[0]
        assert isolate._child is first
        others = [await opened(pool, f"victim{number}") for number in range(3)]
        assert {one._child.pid for one in others} == {pool.children[1].pid}
        holding = asyncio.create_task(isolate.deliver([started()]))
        assert [await one.deliver([started()]) for one in others], "while the first process is held"
        with pytest.raises(LimitExceeded):
            await holding


async def test_without_slow_ones_both_are_used(pool: ChildPool) -> None:
    await made_slow(pool, "hostile")
    isolates = [await opened(pool, f"tenant{number}") for number in range(4)]
    assert {isolate._child.pid for isolate in isolates} == {child.pid for child in pool.children}


async def test_an_isolate_in_the_wrong_process_is_dropped_and_loaded_in_the_right_one(
    pool: ChildPool,
) -> None:
    elsewhere = [await opened(pool, "hostile") for _ in range(4)]
    outside = next(isolate for isolate in elsewhere if isolate._child is not pool.children[0])
    inside = next(isolate for isolate in elsewhere if isolate._child is pool.children[0])
    innocents = [await opened(pool, "victim") for _ in range(4)]
    beside = next(isolate for isolate in innocents if isolate._child is pool.children[0])
    pool.slow.add("hostile")
    with pytest.raises(IsolateLost):
        await outside.deliver([started()])
    with pytest.raises(IsolateLost):
        await beside.deliver([started()])
    assert await inside.deliver([started()])
    assert (await opened(pool, "hostile"))._child is pool.children[0]
    assert (await opened(pool, "victim"))._child is pool.children[1]


async def test_long_work_within_the_limit_counts_too(
    pool: ChildPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "SLOW_US", 100_000)
    work = "async function main() { let n = 0; while (n < 100_000_000) n++; }"
    await (await opened(pool, "busy", work, cpu_ms=30_000)).deliver([started()])
    await (await opened(pool, "quick")).deliver([started()])
    assert "busy" in pool.slow
    assert "quick" not in pool.slow


async def test_a_single_process_is_everybodys() -> None:
    async with ChildPool(children=1) as alone:
        await made_slow(alone, "hostile")
        for tenant in ("hostile", "victim"):
            assert await (await opened(alone, tenant)).deliver([started()])
