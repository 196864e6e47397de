"""The real checker and the real stripper, shared by the tests of a module."""

from collections.abc import AsyncIterator

import pytest_asyncio

from sandbox.compiler.check import Checker
from sandbox.isolate.pool import ChildPool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checker() -> AsyncIterator[Checker]:
    async with Checker() as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stripper() -> AsyncIterator[ChildPool]:
    async with ChildPool(children=1, blanks=0) as pool:
        yield pool
