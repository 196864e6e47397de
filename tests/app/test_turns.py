"""Turns: one namespace's many do not stand before another's one, and nobody is remembered."""

import asyncio

from app.turns import Turns, waiting
from sandbox.journal.ids import NamespaceId
from tests.fixtures.turns import settle

LOUD, QUIET = NamespaceId("loud"), NamespaceId("quiet")


async def test_a_namespace_waits_for_its_own_only() -> None:
    turns, running, gate = Turns(2), [], asyncio.Event()

    async def work(namespace: NamespaceId) -> None:
        async with turns.of(namespace):
            running.append(namespace)
            await gate.wait()

    loud = [asyncio.create_task(work(LOUD)) for _ in range(5)]
    await settle()
    quiet = asyncio.create_task(work(QUIET))
    await settle()
    assert running == [LOUD, LOUD, QUIET]
    loud[4].cancel()
    await settle()
    gate.set()
    await asyncio.gather(*loud, quiet, return_exceptions=True)
    assert running.count(LOUD) == 4
    assert turns._known == {}


async def test_who_waits_for_something_slow_lets_others_have_the_turn() -> None:
    turns, done, slow = Turns(1), [], asyncio.Event()

    async def checking() -> None:
        async with turns.of(LOUD):
            async with waiting():
                await slow.wait()
            done.append("checked")

    async def known() -> None:
        async with turns.of(LOUD), waiting():
            done.append("known")

    first = asyncio.create_task(checking())
    second = asyncio.create_task(checking())
    await settle()
    await known()
    second.cancel()
    await settle()
    slow.set()
    await asyncio.gather(first, second, return_exceptions=True)
    assert (done, second.cancelled(), turns._known) == (["known", "checked"], True, {})


async def test_without_a_turn_there_is_nothing_to_give() -> None:
    async with waiting():
        pass


async def test_a_cancelled_wait_gives_its_turn_back_once() -> None:
    turns, held = Turns(1), asyncio.Event()

    async def checking() -> None:
        async with turns.of(LOUD), waiting():
            await asyncio.Event().wait()

    async def holding() -> None:
        async with turns.of(LOUD):
            await held.wait()

    one = asyncio.create_task(checking())
    await settle()
    other = asyncio.create_task(holding())
    await settle()
    one.cancel()  # it must have its turn again before it can give it back
    await settle()
    assert not one.done()
    held.set()
    await asyncio.gather(one, other, return_exceptions=True)
    assert one.cancelled()
    async with asyncio.timeout(5), turns.of(LOUD):
        pass
    assert turns._known == {}
