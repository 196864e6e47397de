"""Queries about signals; every one is keyed by namespace and run."""

from typing import Any

import asyncpg

from sandbox.journal.ids import NamespaceId, OrganizationId, RunId
from sandbox.store.postgres.connection import acquired
from tenancy.repository import now_ms, reserve_idempotency_key


def _route(run: RunId) -> str:
    return f"POST /v1/runs/{run}/signals"


class SignalRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def reserve(
        self,
        organization: OrganizationId,
        namespace: NamespaceId,
        run: RunId,
        *,
        key: str,
        request_sha256: bytes,
        signal_id: str,
    ) -> Any | None:
        """Bind an idempotency key to this signal's id, or answer the row that bound it before."""
        async with acquired(self._pool) as connection:
            return await reserve_idempotency_key(
                connection,
                organization=organization,
                namespace=namespace,
                route=_route(run),
                key=key,
                request_sha256=request_sha256,
                object_id=signal_id,
                at=await now_ms(connection),
            )

    async def forget(
        self, organization: OrganizationId, namespace: NamespaceId, run: RunId, key: str
    ) -> None:
        """Free the key of a signal that was refused: a refusal uses up no key."""
        async with acquired(self._pool) as connection:
            await connection.execute(
                "delete from idempotency "
                "where organization_id = $1 and namespace_id = $2 and route = $3 and key = $4",
                organization,
                namespace,
                _route(run),
                key,
            )
