"""Release and abandon of quarantined runs, and the operator's drill."""

import orjson

from app.errors import RunActive, RunEnded, RunQuarantined
from app.quarantine.repository import QuarantineRepository
from sandbox.journal.entries import Actor
from sandbox.journal.ids import OrganizationId, RunId
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import REPORT_PLACE
from tenancy.errors import NotFound
from tenancy.ids import parse_id
from tenancy.principals import Principal


class Quarantine:
    def __init__(self, store: PostgresEdge) -> None:
        self._store = store
        self._repository = QuarantineRepository(store.pool)

    async def release(self, principal: Principal, record: RunRecord, reason: str, ip: str) -> None:
        """Let workers try again. Errors: RunActive, RunEnded, RunQuarantined (it is being abandoned)."""
        await self._release(record, principal.organization, principal.actor, reason, ip)

    async def abandon(self, principal: Principal, record: RunRecord, reason: str, ip: str) -> None:
        """Give the run up: its calls are settled, then it ends as aborted. Errors: RunActive, RunEnded."""
        await self._abandon(record, principal.organization, principal.actor, reason, ip)

    # -- By an operator, who knows a run by its id alone

    async def quarantine(self, run: str, reason: str, *, by: Actor) -> None:
        """Put a run there whatever it does, for a drill. Errors: NotFound, RunEnded, RunQuarantined."""
        record, _ = await self._find(run)
        key = await self._store.keys.of(record.namespace)
        report = orjson.dumps({"code": "operator", "reason": reason, "message": reason})
        sealed = key.of(record.run).seal(report, REPORT_PLACE)
        if not await self._repository.quarantine(record.namespace, record.run, sealed, by, reason):
            again, _ = await self._find(run)
            if again.status is RunStatus.QUARANTINED:
                raise RunQuarantined("The run is quarantined already.")
            raise RunEnded("The run has ended: only an active run can be quarantined.")

    async def release_by(self, operator: Actor, run: str, reason: str) -> None:
        record, organization = await self._find(run)
        await self._release(record, organization, operator, reason, None)

    async def abandon_by(self, operator: Actor, run: str, reason: str) -> None:
        record, organization = await self._find(run)
        await self._abandon(record, organization, operator, reason, None)

    async def _find(self, run: str) -> tuple[RunRecord, OrganizationId]:
        found = parse_id(run)
        place = None if found is None else await self._repository.place_of(RunId(found))
        record = None if place is None else await self._store.get_run(place[0], RunId(str(found)))
        if place is None or record is None:
            raise NotFound(f"There is no run {run[:80]!r}.")
        return record, place[1]

    async def _release(
        self, record: RunRecord, organization: OrganizationId, actor: Actor, reason: str, ip: str | None
    ) -> None:
        _require_quarantined(record)
        if not await self._repository.release(record.namespace, record.run, organization, actor, reason, ip):
            raise RunQuarantined("The run is being abandoned: it ends soon, and cannot be released any more.")
        self._store.tell_ready()

    async def _abandon(
        self, record: RunRecord, organization: OrganizationId, actor: Actor, reason: str, ip: str | None
    ) -> None:
        _require_quarantined(record)
        if not await self._repository.abandon(record.namespace, record.run, organization, actor, reason, ip):
            raise RunActive("The run was released meanwhile: it is active.")


def _require_quarantined(record: RunRecord) -> None:
    if record.status is RunStatus.ACTIVE:
        raise RunActive("The run is active: only a quarantined run can be released or abandoned.")
    if record.status is not RunStatus.QUARANTINED:
        raise RunEnded(f"The run has ended: it is {record.status.name.lower()}.")
