"""Turns: one at a time, tenants round-robin, and a waiter that gives up takes nobody's turn away."""

import asyncio

from sandbox.isolate.turns import Turns
from tests.fixtures.turns import settle


async def served(entering: list[str], *, given_up: str = "") -> list[str]:
    """Who has a turn after the other when all of these wait; the tenant is a name's first letter."""
    turns, order = Turns(), []

    async def take(name: str) -> None:
        async with turns.turn(name[0]):
            order.append(name)

    async with turns.turn("a"):
        tasks = {name: asyncio.create_task(take(name)) for name in entering}
        await settle()
        if given_up:
            tasks[given_up].cancel()
            await settle()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert not turns.taken
    return order


async def test_tenants_take_turns() -> None:
    assert await served(["a1", "a2", "a3", "b1", "b2", "c1"]) == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_waiter_that_gives_up_is_passed_over() -> None:
    assert await served(["a1", "b1", "c1"], given_up="b1") == ["a1", "c1"]


async def test_a_turn_given_to_a_waiter_that_gives_up_goes_to_the_next() -> None:
    turns = Turns()
    order = []

    async def wait(tenant: str) -> None:
        async with turns.turn(tenant):
            order.append(tenant)

    async with turns.turn("a"):
        given_up = asyncio.create_task(wait("b"))
        following = asyncio.create_task(wait("c"))
        await settle()
    given_up.cancel()  # its turn has come, but it has not noticed yet
    await asyncio.wait_for(following, 10)
    assert given_up.cancelled() or given_up.done()
    assert order == ["c"]
    assert not turns.taken
