"""Fair shares of a few children."""

import asyncio

from sandbox.compiler.seats import Seats


async def test_a_tenant_never_has_all() -> None:
    seats = Seats([1, 2])
    order: list[str] = []
    release = asyncio.Event()

    async def work(tenant: str) -> None:
        async with seats.seat(tenant, lambda _: False):
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
        async with seats.seat(tenant, lambda _: False):
            order.append(tenant)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(tenant) for tenant in ["a", "a", "a", "b", "b"]))
    assert order == ["a", "a", "b", "a", "b"]


async def test_the_preferred_seat_is_taken_if_it_is_free() -> None:
    seats = Seats(["one", "two"])
    async with seats.seat("a", lambda name: name == "two") as first:
        assert first == "two"
        async with seats.seat("b", lambda name: name == "two") as second:
            assert second == "one"


async def test_who_gives_up_waiting_keeps_nothing() -> None:
    seats = Seats([1])
    async with seats.seat("a", lambda _: False):
        waiting = asyncio.create_task(seats._take("b", lambda _: False))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async with asyncio.timeout(5), seats.seat("c", lambda _: False) as seat:
        assert seat == 1
