"""The stores under test."""

from collections.abc import AsyncIterator

import pytest

from tests.fixtures.stores import Bench, open_bench


@pytest.fixture(params=["memory", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(kind: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("database_url") if kind == "postgres" else None


@pytest.fixture
async def bench(database: str | None) -> AsyncIterator[Bench]:
    async with open_bench(database) as opened:
        yield opened
