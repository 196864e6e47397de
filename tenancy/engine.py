"""The SQLAlchemy engine of reads through SQLModel; everything hot is raw asyncpg."""

import asyncpg
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sandbox.store.postgres.connection import connect

POOL_SIZE = 2
OVERFLOW_MAX = 4


def engine_of(url: str, role: str) -> AsyncEngine:
    """Return an engine whose connections are made like all others: with the role of this process."""

    async def connection() -> asyncpg.Connection:
        return await connect(url, role=role, name="reads", planner=False)

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connection,
        pool_size=POOL_SIZE,
        max_overflow=OVERFLOW_MAX,
        pool_pre_ping=True,
    )
