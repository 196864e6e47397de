"""Turns: one namespace's many do not stand before another's one, and nobody is remembered."""

import asyncio

from app.turns import Turns
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
