"""Statements about several leases meet batches that lock the same rows in another order: they are tried again."""

from typing import Any

import asyncpg
import pytest

from sandbox.store.interface import TaskFilter
from sandbox.store.postgres.batcher import RETRIES_MAX
from sandbox.store.postgres.edge import PostgresEdge
from tests.fixtures.keys import DATA_KEY
from tests.fixtures.stores import ORGANIZATION

CLAIM = "00000000-0000-4000-8000-000000000001"


@pytest.mark.parametrize("deadlocks", [1, RETRIES_MAX - 1])
async def test_a_claim_that_met_a_deadlock_is_tried_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch, deadlocks: int
) -> None:
    fetch, met = asyncpg.Connection.fetch, 0

    async def meets(self: asyncpg.Connection, sql: str, *values: Any) -> Any:
        nonlocal met
        if "claim_tasks" in sql and met < deadlocks:
            met += 1
            raise asyncpg.DeadlockDetectedError("deadlock detected")
        return await fetch(self, sql, *values)

    edge = await PostgresEdge.open(database_url, data_key=DATA_KEY)
    monkeypatch.setattr(asyncpg.Connection, "fetch", meets)
    assert await edge.claim_tasks(TaskFilter(ORGANIZATION), CLAIM, 1, 1_000) == []
    assert met == deadlocks
    await edge.close()
