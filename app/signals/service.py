"""Signals to runs: recorded once by id, whether or not anything waits for them yet."""

from dataclasses import dataclass

from app.errors import HistoryFull, RunEnded
from app.runs.schemas import SignalBody
from app.signals.repository import SignalRepository
from app.values import Values
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import EntryType, SignalReceived
from sandbox.journal.ids import NamespaceId, RunId
from sandbox.store.interface import EventAppend, EventOutcome, Guard
from sandbox.store.postgres.edge import PostgresEdge
from tenancy.errors import IdempotencyConflict, NotFound
from tenancy.ids import new_id
from tenancy.principals import NamespaceRef, Principal

HISTORY_FULL_RETRY_S = 60
_REFUSED = frozenset({EventOutcome.UNKNOWN, EventOutcome.ENDED, EventOutcome.HISTORY_FULL})


@dataclass(frozen=True, slots=True)
class Sent:
    id: str
    duplicate: bool
    replayed: bool


class Signals:
    def __init__(self, store: PostgresEdge, values: Values, repository: SignalRepository) -> None:
        self._store = store
        self._values = values
        self._repository = repository

    async def send(
        self,
        principal: Principal,
        namespace: NamespaceRef,
        run: RunId,
        body: SignalBody,
        *,
        key: str | None,
        request_sha256: bytes,
    ) -> Sent:
        """Record the signal.

        Errors: NotFound, RunEnded, HistoryFull, TooLarge, IdempotencyConflict, Unavailable.
        """
        signal_id = body.id or new_id(await self._store.now())
        payload = await self._values.take(namespace.id, body.payload, "payload")
        replayed = False
        if key is not None:
            signal_id, replayed = await self._reserve(
                principal, namespace.id, run, key, request_sha256, signal_id
            )
        received = SignalReceived(
            name=body.name, payload=payload, id=signal_id, by=body.by, actor=principal.actor
        )
        verdict = await self._store.append_event(
            EventAppend(
                namespace=namespace.id,
                run=run,
                type=EntryType.SIGNAL_RECEIVED,
                body=encode_body(received),
                guard=Guard.SIGNAL,
                signal_id=signal_id,
            )
        )
        if key is not None and not replayed and verdict.outcome in _REFUSED:
            await self._repository.forget(principal.organization, namespace.id, run, key)
        if verdict.outcome is EventOutcome.UNKNOWN:
            raise NotFound(f"There is no run {run} in this namespace.")
        if verdict.outcome is EventOutcome.ENDED:
            repeatable = replayed or body.id is not None
            if repeatable and await self._store.has_signal(namespace.id, run, signal_id):
                return Sent(signal_id, duplicate=True, replayed=replayed)
            raise RunEnded("The run has ended: it takes no more signals.")
        if verdict.outcome is EventOutcome.HISTORY_FULL:
            raise HistoryFull(
                "The journal of this run is full: it takes no more signals.",
                retry_after_s=HISTORY_FULL_RETRY_S,
            )
        return Sent(signal_id, verdict.outcome is EventOutcome.DUPLICATE, replayed)

    async def _reserve(
        self,
        principal: Principal,
        namespace: NamespaceId,
        run: RunId,
        key: str,
        request_sha256: bytes,
        signal_id: str,
    ) -> tuple[str, bool]:
        """Bind the key to this signal's id, or find the id that it was bound to.

        The append that follows is guarded by that id: a repeat completes what a crash left undone.
        """
        before = await self._repository.reserve(
            principal.organization,
            namespace,
            run,
            key=key,
            request_sha256=request_sha256,
            signal_id=signal_id,
        )
        if before is None:
            return signal_id, False
        if before["request_sha256"] != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another signal.")
        return before["object_id"], True
