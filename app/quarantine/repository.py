"""What is done to quarantined runs, each with its line in the audit log, in one transaction."""

import asyncpg

from sandbox.journal.entries import Actor
from sandbox.journal.ids import NamespaceId, OrganizationId, RunId
from sandbox.store.postgres.connection import acquired
from tenancy.audit import Act, audit


class QuarantineRepository:
    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def release(
        self,
        namespace: NamespaceId,
        run: RunId,
        organization: OrganizationId,
        actor: Actor,
        reason: str,
        ip: str | None,
    ) -> bool:
        """False: the run is not quarantined, or is being abandoned."""
        act = Act(
            "run.release", f"run:{run}", {"status": "quarantined"}, {"status": "active", "reason": reason}
        )
        return await self._do(
            "select release_quarantined($1, $2)", namespace, run, organization, actor, act, ip
        )

    async def abandon(
        self,
        namespace: NamespaceId,
        run: RunId,
        organization: OrganizationId,
        actor: Actor,
        reason: str,
        ip: str | None,
    ) -> bool:
        """False: the run is not quarantined."""
        act = Act(
            "run.abandon", f"run:{run}", {"status": "quarantined"}, {"status": "aborted", "reason": reason}
        )
        return await self._do(
            "select abandon_quarantined($1, $2)", namespace, run, organization, actor, act, ip
        )

    async def quarantine(
        self, namespace: NamespaceId, run: RunId, sealed_report: bytes, actor: Actor, reason: str
    ) -> bool:
        """By an operator of the deployment. False: the run is not active."""
        async with acquired(self._pool) as connection, connection.transaction():
            organization = await connection.fetchval(
                "select quarantine_by_operator($1, $2, $3)", namespace, run, sealed_report
            )
            if organization is None:
                return False
            act = Act(
                "run.quarantine",
                f"run:{run}",
                {"status": "active"},
                {"status": "quarantined", "reason": reason},
            )
            await audit(connection, OrganizationId(str(organization)), actor, act)
        return True

    async def place_of(
        self, run: RunId, scope: NamespaceId | None = None
    ) -> tuple[NamespaceId, OrganizationId] | None:
        """For an operator, who knows a run by its id alone."""
        async with acquired(self._pool) as connection:
            found = await connection.fetchrow(
                "select namespace_id, organization_id from run_facts "
                "where run_id = $1 and ($2::uuid is null or namespace_id = $2)",
                run,
                scope,
            )
        if found is None:
            return None
        return NamespaceId(str(found["namespace_id"])), OrganizationId(str(found["organization_id"]))

    async def _do(
        self,
        sql: str,
        namespace: NamespaceId,
        run: RunId,
        organization: OrganizationId,
        actor: Actor,
        act: Act,
        ip: str | None,
    ) -> bool:
        async with acquired(self._pool) as connection, connection.transaction():
            done: bool = await connection.fetchval(sql, namespace, run)
            if done:
                await audit(connection, organization, actor, act, ip=ip)
        return done
