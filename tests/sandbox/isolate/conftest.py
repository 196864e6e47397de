"""One pool of real, confined child processes per module of tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest_asyncio

from sandbox.isolate.api import ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from tests.sandbox.isolate.world import World

Run = Callable[..., Awaitable[World]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=1) as children:
        yield children


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(pool: ChildPool) -> Run:
    """Run a script to its end, `await run(source, input=…, answer=…)`, warm and rebuilt after every event.

    Both must give the same; the warm one is answered. `answer` must not remember anything. The tools are
    probe.echo, probe.fail and probe.gated unless `tools` names others.
    """

    async def start(
        source: str,
        *,
        tools: tuple[str, ...] = ("probe.echo", "probe.fail"),
        both: bool = True,
        **options: Any,
    ) -> World:
        compiled = await pool.strip(source, 1)
        assert isinstance(compiled, Compiled), compiled
        names = (*(ToolName(name, gated=False) for name in tools), ToolName("probe.gated", gated=True))
        world = World(pool=pool, compiled=compiled, tools=names, **options)
        await world.run_to_end()
        if both:
            again = World(pool=pool, compiled=compiled, tools=names, evicted=True, **options)
            await again.run_to_end()
            assert again.entries == world.entries
        return world

    return start
