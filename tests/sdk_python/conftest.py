"""The tasks protocol of the server, and a client that talks to it."""

from collections.abc import AsyncIterator

import pytest
from rewind import AsyncRewind

from tests.sdk_python.command import run, server  # noqa: F401 - fixtures of the command's tests
from tests.sdk_python.fake_tasks import FakeTasks


@pytest.fixture
async def tasks() -> AsyncIterator[FakeTasks]:
    async with FakeTasks() as fake:
        yield fake


@pytest.fixture
async def client(tasks: FakeTasks) -> AsyncIterator[AsyncRewind]:
    async with AsyncRewind(api_key="rwk_test", base_url=tasks.url) as made:
        yield made
