"""Deletion and redaction of ended runs. Both seal the run first: what it was stays provable."""

from app.errors import RunActive, RunQuarantined, invalid
from app.keeping.repository import Doer, KeepingRepository
from app.scheduler.seals import Sealer
from sandbox.journal.ids import Seq
from sandbox.store.interface import RunRecord, RunStatus
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.redaction import NothingToRedact, Redacted
from tenancy.errors import NotFound


class Keeping:
    def __init__(self, store: PostgresEdge, repository: KeepingRepository, sealer: Sealer) -> None:
        self._store = store
        self._repository = repository
        self._sealer = sealer

    async def delete(self, record: RunRecord, doer: Doer) -> None:
        """Errors: RunActive, RunQuarantined, NotFound when somebody was faster, Unavailable."""
        await self._seal(record, "deleted: cancel it first")
        if await self._repository.delete(record.namespace, record.run, doer):
            return
        if await self._store.get_run(record.namespace, record.run) is None:
            raise NotFound(f"There is no run {record.run} in this namespace.")
        raise RunActive("The run that awaits this one is being told of its end: try again in a moment.")

    async def redact(self, record: RunRecord, seq: Seq, field: str, doer: Doer) -> Redacted:
        """Errors: RunActive, RunQuarantined, NotFound, ApiError (400) when the entry has no such value, Unavailable."""
        await self._seal(record, "redacted: its script may still need the value")
        try:
            return await self._repository.redact(record.namespace, record.run, seq, field, doer)
        except NothingToRedact as error:
            raise invalid("field", "invalid_value", str(error)) from None

    async def _seal(self, record: RunRecord, what: str) -> None:
        if record.status is RunStatus.QUARANTINED:
            raise RunQuarantined("The run is quarantined: release or abandon it first.")
        if record.end_seq is None:
            raise RunActive(f"The run has not ended: it cannot be {what}.")
        await self._sealer.seal(record.namespace, record.run, record.end_seq + 1)
