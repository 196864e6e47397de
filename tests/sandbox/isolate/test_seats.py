"""Fair shares of a few children."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from sandbox.isolate.seats import Seats
from sandbox.isolate.slow import SLOW_FOR_S

T = TypeVar("T")


@asynccontextmanager
async def seated(seats: Seats[T], tenant: str, prefer: Callable[[T], bool]) -> AsyncIterator[T]:
    seat = await seats.take(tenant, prefer)
    try:
        yield seat
    finally:
        seats.leave(tenant, seat)


async def test_a_tenant_never_has_all() -> None:
    seats = Seats([1, 2, 3])
    order: list[str] = []
    release = asyncio.Event()

    async def work(tenant: str) -> None:
        async with seated(seats, tenant, lambda _: False):
            order.append(tenant)
            await release.wait()

    tasks = [asyncio.create_task(work("a")) for _ in range(3)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(work("b")))
    await asyncio.sleep(0)
    assert order == ["a", "b"]
    release.set()
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "a", "a"]


async def test_tenants_take_turns() -> None:
    seats = Seats([1])
    order: list[str] = []

    async def work(tenant: str) -> None:
        async with seated(seats, tenant, lambda _: False):
            order.append(tenant)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(tenant) for tenant in ["a", "a", "a", "b", "b"]))
    assert order == ["a", "a", "b", "a", "b"]


async def test_the_preferred_seat_is_taken_if_it_is_free() -> None:
    seats = Seats(["one", "two"])
    async with seated(seats, "a", lambda name: name == "two") as first:
        assert first == "two"
        async with seated(seats, "b", lambda name: name == "two") as second:
            assert second == "one"


async def test_who_gives_up_waiting_keeps_nothing() -> None:
    seats = Seats([1])
    async with seated(seats, "a", lambda _: False):
        waiting = asyncio.create_task(seats.take("b", lambda _: False))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5), seated(seats, "c", lambda _: False) as seat:
        assert seat == 1


async def test_slow_tenants_share_one() -> None:
    """However many come: the others have all seats but that one. After a while they count as the others do."""
    now = [0.0]
    seats = Seats([1, 2, 3], clock=lambda: now[0])
    order: list[str] = []
    release = asyncio.Event()

    async def work(tenant: str) -> None:
        async with seated(seats, tenant, lambda _: False):
            order.append(tenant)
            await release.wait()

    for tenant in ("slow1", "slow2", "slow3"):
        seats.was_slow(tenant)
    tasks = [asyncio.create_task(work(tenant)) for tenant in ("slow1", "slow2", "slow3", "a", "b")]
    await asyncio.sleep(0)
    assert order == ["slow1", "a", "b"]
    release.set()
    await asyncio.gather(*tasks)
    assert sorted(order) == ["a", "b", "slow1", "slow2", "slow3"]
    release.clear()
    order.clear()
    now[0] = SLOW_FOR_S
    tasks = [asyncio.create_task(work(tenant)) for tenant in ("slow1", "slow2", "slow3")]
    await asyncio.sleep(0)
    assert order == ["slow1", "slow2", "slow3"]
    release.set()
    await asyncio.gather(*tasks)


async def test_the_slow_ones_have_always_the_same_seat_and_others_take_it_last() -> None:
    """What dies of slow tenants' scripts is that one; the others stay warm. It is not kept for them."""
    seats = Seats([1, 2, 3])
    seats.was_slow("slow")
    for _ in range(2):
        async with seated(seats, "slow", lambda seat: seat != 1) as seat:
            assert seat == 1
    async with (
        seated(seats, "a", lambda _: False) as first,
        seated(seats, "b", lambda _: False) as second,
        seated(seats, "c", lambda _: False) as third,
    ):
        assert (first, second, third) == (2, 3, 1)
        waiting = asyncio.create_task(seats.take("slow", lambda _: False))
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == 1
    async with seated(seats, "a", lambda seat: seat == 1) as other:
        assert other != 1


async def test_of_the_slow_ones_seat_another_may_have_its_toolset_open() -> None:
    seats = Seats([1, 2])
    async with seated(seats, "a", lambda seat: seat == 1) as seat:
        assert seat == 1


async def test_who_was_found_slow_meanwhile_keeps_its_seat() -> None:
    seats = Seats([1, 2])
    async with seated(seats, "a", lambda _: False) as first, asyncio.timeout(5):
        assert first == 2
        seats.was_slow("a")
        seats.was_slow("b")
        async with seated(seats, "b", lambda _: False) as seat:
            assert seat == 1
            waiting = asyncio.create_task(seats.take("a", lambda _: False))
            await asyncio.sleep(0)
            assert not waiting.done()
    assert await waiting == 1


async def test_nobody_gets_a_seat_that_is_being_replaced() -> None:
    """Its last tenant goes on in another one meanwhile."""
    seats = Seats([1, 2])
    seat = await seats.take("a", lambda _: False)
    seats.leave("a", seat, usable=False)
    other = await seats.take("a", lambda _: False)
    assert {seat, other} == {1, 2}
    waiting = asyncio.create_task(seats.take("b", lambda _: False))
    await asyncio.sleep(0)
    assert not waiting.done()
    seats.repaired(seat)
    assert await waiting == seat
