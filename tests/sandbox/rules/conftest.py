"""A pool of real, confined children per module of tests; each test is played warm and evicted."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sandbox.isolate.pool import ChildPool
from tests.sandbox.rules.rig import Rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=1) as children:
        yield children


@pytest_asyncio.fixture(loop_scope="module", params=["warm", "evicted"])
async def rig(pool: ChildPool, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    made = Rig(pool, warm=request.param == "warm")
    yield made
    await made.check()
