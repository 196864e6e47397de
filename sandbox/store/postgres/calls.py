"""The dispatcher's side of calls: claimed, which is the durable mark that they are sent; renewed; given back."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from sandbox.journal.ids import Digest, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.postgres.connection import acquired
from sandbox.store.postgres.keys import NamespaceKeys
from sandbox.store.postgres.tasks import open_args

CallKey = tuple[NamespaceId, RunId, int]
"""(namespace, run, call)"""
ServerKey = tuple[OrganizationId, str, str]
"""(organization, toolset, group): what shares a limit of calls in flight."""


@dataclass(frozen=True, slots=True)
class ClaimedCall:
    """One begun attempt. `left_ms`: until the call's time is over; None: it has no limit."""

    namespace: NamespaceId
    run: RunId
    call: int
    tool: str
    attempt: int
    begun_at: TimeMs
    left_ms: int | None
    body: bytes
    """Of the schedule_tool_call entry."""
    organization: OrganizationId
    toolset: str
    toolset_digest: Digest
    paced: bool = False
    """It shares limits with other calls: when it ends, another one may begin."""

    @property
    def key(self) -> CallKey:
        return (self.namespace, self.run, self.call)

    @property
    def server(self) -> ServerKey:
        return (self.organization, self.toolset, self.tool.partition(".")[0])


class Calls:
    pool: asyncpg.Pool
    keys: NamespaceKeys

    async def claim_calls(
        self,
        claim_id: str,
        limit: int,
        *,
        lease_ms: int,
        server_max: int,
        free: Mapping[ServerKey, int],
        full: Iterable[OrganizationId] = (),
    ) -> list[ClaimedCall]:
        """Begin up to `limit` calls. `free`: room of the servers that have less than `server_max`.

        Errors: Unavailable; then calls may have been claimed that nobody knows of: see `renew_calls`.
        """
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                "select * from claim_calls($1,$2,$3,$4,$5,$6,$7,$8,$9)",
                claim_id,
                limit,
                server_max,
                lease_ms,
                list(full),
                [organization for organization, _, _ in free],
                [toolset for _, toolset, _ in free],
                [server for _, _, server in free],
                list(free.values()),
            )
        keys = await self.keys.known({NamespaceId(str(row["namespace_id"])) for row in rows})
        return [
            ClaimedCall(
                namespace=namespace,
                run=RunId(str(row["run_id"])),
                call=row["n"],
                tool=row["name"],
                attempt=row["attempt"],
                begun_at=TimeMs(row["begun_at"]),
                left_ms=row["left_ms"],
                body=open_args(keys[namespace], RunId(str(row["run_id"])), row["body"]),
                organization=OrganizationId(str(row["organization_id"])),
                toolset=row["toolset"],
                toolset_digest=Digest(row["toolset_digest"]),
                paced=row["paced"],
            )
            for row in rows
            if (namespace := NamespaceId(str(row["namespace_id"]))) in keys
        ]

    async def retry_call(self, claim_id: str, call: ClaimedCall, after_ms: int) -> bool:
        """End a failed attempt and offer the call again; False: it has its outcome, or is told to stop."""
        async with acquired(self.pool) as connection:
            offered = await connection.fetchval(
                "select retry_call($1, $2, $3, $4, $5, $6)",
                claim_id,
                call.namespace,
                call.run,
                call.call,
                call.attempt,
                after_ms,
            )
        return bool(offered)

    async def renew_calls(self, claim_id: str, lease_ms: int) -> dict[CallKey, int]:
        """Lengthen every lease of the claim; the attempt of each call that it holds."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch("select * from renew_calls($1, $2)", claim_id, lease_ms)
        return {_key(row): row["attempt"] for row in rows}

    async def stopping_calls(self, claim_id: str) -> list[CallKey]:
        """Calls of the claim that are told to stop."""
        async with acquired(self.pool) as connection:
            rows = await connection.fetch(
                "select namespace_id, run_id, n from pending where claim_id = $1 and kind = 0 and stopping",
                claim_id,
            )
        return [_key(row) for row in rows]

    async def release_calls(self, claim_id: str, calls: Sequence[CallKey]) -> None:
        """Give calls back that were certainly not sent."""
        async with acquired(self.pool) as connection:
            await connection.execute(
                "select release_calls($1, $2, $3, $4)",
                claim_id,
                [namespace for namespace, _, _ in calls],
                [run for _, run, _ in calls],
                [call for _, _, call in calls],
            )


def _key(row: asyncpg.Record) -> CallKey:
    return (NamespaceId(str(row["namespace_id"])), RunId(str(row["run_id"])), row["n"])
