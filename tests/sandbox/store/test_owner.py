"""A worker that leaves keeps nothing."""

from sandbox.journal.ids import Epoch
from sandbox.store.postgres.owner import PostgresOwner
from tests.fixtures.stores import open_bench


async def test_runs_of_a_worker_that_leaves_are_free_whatever_it_forgot(database_url: str) -> None:
    """A claim that was cut short by the drain is in the database and in no memory."""
    async with open_bench(database_url) as bench:
        owned = await bench.own()
        assert isinstance(owned.store, PostgresOwner)
        await owned.store.deregister()
        assert await owned.store.claim_runs(owned.store.worker, [Epoch(1)], 1) == []
        successor = await bench.owner()
        [claimed] = await successor.claim_runs(successor.worker, [Epoch(1)], 1)
        assert (claimed.run, claimed.owner_epoch) == (owned.claimed.run, owned.claimed.owner_epoch + 1)
