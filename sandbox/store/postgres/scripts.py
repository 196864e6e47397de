"""Scripts by digest, with what the epoch's stripper made of them."""

from typing import Any

import asyncpg
import orjson

from sandbox.journal.ids import Digest, Epoch, NamespaceId
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.rows import json_of


class Scripts:
    pool: asyncpg.Pool

    async def put_script(self, namespace: NamespaceId, digest: Digest, source: str) -> None:
        async with acquired(self.pool) as connection:
            await connection.execute(
                "insert into scripts (namespace_id, digest, source, created_at) values ($1, $2, $3, now_ms())"
                " on conflict do nothing",
                namespace,
                digest,
                source,
            )

    async def get_script(self, namespace: NamespaceId, digest: Digest) -> str | None:
        async with acquired(self.pool) as connection:
            source: str | None = await connection.fetchval(
                "select source from scripts where namespace_id = $1 and digest = $2", namespace, digest
            )
            return source

    async def put_compiled(
        self, namespace: NamespaceId, digest: Digest, epoch: Epoch, compiled: dict[str, Any]
    ) -> None:
        async with acquired(self.pool) as connection:
            await connection.execute(
                "insert into compiled_scripts (namespace_id, digest, epoch, compiled, created_at)"
                " values ($1, $2, $3, $4, now_ms()) on conflict do nothing",
                namespace,
                digest,
                epoch,
                orjson.dumps(compiled).decode(),
            )

    async def get_compiled(
        self, namespace: NamespaceId, digest: Digest, epoch: Epoch
    ) -> dict[str, Any] | None:
        async with acquired(self.pool) as connection:
            text = await connection.fetchval(
                "select compiled from compiled_scripts where namespace_id = $1 and digest = $2 and epoch = $3",
                namespace,
                digest,
                epoch,
            )
            compiled: dict[str, Any] | None = json_of(text)
            return compiled
