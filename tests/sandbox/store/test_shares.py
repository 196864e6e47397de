"""A customer has a share of the connections of a process, and waits for its own."""

import asyncio

import pytest

from sandbox.customers import on_behalf_of
from sandbox.journal.errors import Unavailable
from sandbox.store.postgres import shares
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.reach import as_system
from sandbox.store.postgres.shares import Shares
from tests.fixtures.keys import DATA_KEY


class Crowd:
    """Tasks of customers that hold a connection until they are let go."""

    def __init__(self, edge: PostgresEdge) -> None:
        self._edge = edge
        self.go = asyncio.Event()
        self.holding: asyncio.Queue[str] = asyncio.Queue()

    def ask(self, customer: str, *, twice: bool = False) -> "asyncio.Task[int]":
        async def hold() -> int:
            on_behalf_of(customer)
            with as_system():
                async with acquired(self._edge.pool) as connection:
                    self.holding.put_nowait(customer)
                    await self.go.wait()
                    if twice:
                        async with acquired(self._edge.pool) as second:
                            return int(await second.fetchval("select 2"))
                    return int(await connection.fetchval("select 1"))

        return asyncio.create_task(hold())


async def test_who_asks_most_leaves_some(shared_database_url: str) -> None:
    edge = await PostgresEdge.serving(shared_database_url, data_key=DATA_KEY, size=5)
    crowd = Crowd(edge)
    try:
        many = [crowd.ask("a") for _ in range(50)]
        assert [await crowd.holding.get() for _ in range(2)] == ["a", "a"]
        other, own = crowd.ask("b"), crowd.ask("")
        assert {await crowd.holding.get(), await crowd.holding.get()} == {"b", ""}
        crowd.go.set()
        assert await asyncio.gather(*many, other, own) == [1] * 52
    finally:
        await edge.close()


async def test_a_second_connection_is_not_waited_for(shared_database_url: str) -> None:
    """Whoever has one and needs another would wait for itself."""
    edge = await PostgresEdge.serving(shared_database_url, data_key=DATA_KEY, size=5)
    crowd = Crowd(edge)
    try:
        tasks = [crowd.ask("a", twice=True) for _ in range(4)]
        crowd.go.set()
        assert await asyncio.gather(*tasks) == [2] * 4
    finally:
        await edge.close()


async def test_who_asks_for_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "PATIENCE_S", 0.01)
    own = Shares(1)
    async with own.of("a"):
        first = asyncio.create_task(_hold(own))
        with pytest.raises(Unavailable, match="send fewer at a time"):
            await first
        shares._HOLDS.set(False)
        async with own.of("b"):
            assert len(own._known) == 2
    assert own._known == {}


async def _hold(own: Shares) -> None:
    shares._HOLDS.set(False)  # the task was begun by one that has a connection
    async with own.of("a"):
        raise AssertionError("there was none left")
