"""Release and abandon of quarantined runs, and the operator's drill."""

import orjson

from app.errors import RunActive, RunEnded, RunQuarantined
from app.quarantine.repository import QuarantineRepository
from sandbox.journal.ids import RunId
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
        _require_quarantined(record)
        organization, actor = principal.organization, principal.actor
        if not await self._repository.release(record.namespace, record.run, organization, actor, reason, ip):
            raise RunQuarantined("The run is being abandoned: it ends soon, and cannot be released any more.")
        self._store.tell_ready()

    async def abandon(self, principal: Principal, record: RunRecord, reason: str, ip: str) -> None:
        """Give the run up: its calls are settled, then it ends as aborted. Errors: RunActive, RunEnded."""
        _require_quarantined(record)
        if not await self._repository.abandon(
            record.namespace, record.run, principal.organization, principal.actor, reason, ip
        ):
            raise RunActive("The run was released meanwhile: it is active.")

    async def quarantine(self, run: str, reason: str) -> None:
        """Put a run there whatever it does. Errors: NotFound, RunEnded, RunQuarantined."""
        found = parse_id(run)
        namespace = None if found is None else await self._repository.namespace_of(RunId(found))
        if found is None or namespace is None:
            raise NotFound(f"There is no run {run[:80]!r}.")
        key = await self._store.keys.of(namespace)
        report = orjson.dumps({"code": "operator", "reason": reason, "message": reason})
        sealed = key.of(RunId(found)).seal(report, REPORT_PLACE)
        if not await self._repository.quarantine(namespace, RunId(found), sealed, reason):
            record = await self._store.get_run(namespace, RunId(found))
            if record is not None and record.status is RunStatus.QUARANTINED:
                raise RunQuarantined("The run is quarantined already.")
            raise RunEnded("The run has ended: only an active run can be quarantined.")


def _require_quarantined(record: RunRecord) -> None:
    if record.status is RunStatus.ACTIVE:
        raise RunActive("The run is active: only a quarantined run can be released or abandoned.")
    if record.status is not RunStatus.QUARANTINED:
        raise RunEnded(f"The run has ended: it is {record.status.name.lower()}.")
