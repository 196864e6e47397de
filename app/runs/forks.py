"""Forks: what may be forked, what would be reused, and the run that begins with it."""

from dataclasses import dataclass, replace

import orjson

from app.errors import EpochUnavailable, HistoryUnavailable, RunActive, RunQuarantined, invalid
from app.runs.fork_schemas import ForkBody
from app.runs.repository import RunRepository
from app.runs.service import Started
from app.scripts.service import Candidate, Scripts, require_input
from app.toolsets.service import ToolsetRef
from app.values import Values
from sandbox.compiler.client import SandboxClient, reexecution_timeout_ms
from sandbox.epochs.registry import served_epochs
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import Origin, Parent, RunStarted
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, RunId, Seq, TimeMs
from sandbox.store.interface import RunRecord, RunStatus, StartOutcome, StartRun
from sandbox.store.postgres.children import depth_of
from sandbox.store.postgres.edge import PostgresEdge
from tenancy.errors import IdempotencyConflict
from tenancy.ids import new_id
from tenancy.principals import NamespaceRef, Principal
from tenancy.quotas.service import Quotas

ROUTE = "POST /v1/runs/{run}/fork"
PLAN_TIMEOUT_MS = 30_000
"""A fork is not kept waiting longer for what it will reuse."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a fork is made of, before it exists."""

    start: StartRun
    script: Candidate


class Forks:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        repository: RunRepository,
        scripts: Scripts,
        sandbox: SandboxClient,
        quotas: Quotas,
        values: Values,
    ) -> None:
        self._store = store
        self._repository = repository
        self._scripts = scripts
        self._sandbox = sandbox
        self._quotas = quotas
        self._values = values

    async def known(
        self, principal: Principal, namespace: NamespaceId, key: str | None, request_sha256: bytes
    ) -> Started | None:
        """What this idempotency key forked before. Errors: IdempotencyConflict."""
        known = await self._repository.before_start(principal.organization, namespace, ROUTE, key)
        if known["object_id"] is None:
            return None
        return _replayed(RunId(known["object_id"]), same=known["request_sha256"] == request_sha256)

    async def fork(
        self,
        principal: Principal,
        namespace: NamespaceRef,
        parent: RunRecord,
        body: ForkBody,
        *,
        key: str | None,
        request_sha256: bytes,
    ) -> Started:
        """Start a fork; what it reuses is known when it starts, or when its worker has found out.

        Errors: RunActive, RunQuarantined, HistoryUnavailable, EpochUnavailable, ScriptRefused, InputRefused,
        NotFound, TooLarge, QuotaExceeded, IdempotencyConflict, Unavailable.
        """
        parts = await self._parts(principal, namespace, parent, body)
        try:
            report = await self._plan(parent, body, parts, PLAN_TIMEOUT_MS)
        except Unavailable:
            report = None  # the worker that starts the fork makes the plan again
        await self._scripts.keep(namespace.id, parts.script, _toolset(parent), parent.epoch)
        verdict = await self._store.start_run(
            replace(
                parts.start,
                fork_report=report,
                route=ROUTE,
                idempotency_key=key,
                request_sha256=request_sha256,
            )
        )
        if verdict.outcome is StartOutcome.GONE:
            raise HistoryUnavailable("This run was deleted meanwhile: there is nothing to fork.")
        if verdict.outcome is not StartOutcome.STARTED:
            return _replayed(verdict.run, same=verdict.outcome is StartOutcome.REPLAYED)
        return Started(parts.start.run, replayed=False)

    async def plan(
        self, principal: Principal, namespace: NamespaceRef, parent: RunRecord, body: ForkBody
    ) -> bytes:
        """What a fork would reuse; nothing is stored. Errors: as of `fork`."""
        parts = await self._parts(principal, namespace, parent, body)
        return await self._plan(parent, body, parts, reexecution_timeout_ms(parent.cpu_us))

    async def _parts(
        self, principal: Principal, namespace: NamespaceRef, parent: RunRecord, body: ForkBody
    ) -> Parts:
        principal.require_start(toolset=parent.toolset, workflow=None if body.script else parent.workflow)
        if parent.workflow is not None:
            principal.require_toolset_of(parent.workflow, parent.toolset)
        refuse_fork(parent, body)
        ttl_ms = await self._quotas.ttl_ms(principal.organization, namespace.id, body.ttl)
        first = next(iter(await self._store.read_entries(parent.namespace, parent.run, limit=1)), None)
        before = None if first is None else decode_body(first.type, first.body)[0]
        if first is None or not isinstance(before, RunStarted) or before.input.redacted:
            raise HistoryUnavailable("The journal of this run, or its input, is not there any more.")
        script = await self._script(principal, namespace.id, parent, body.script)
        if body.script is not None:
            given = await self._values.text(namespace.id, before.input)
            await require_input(script.input_type, script.input_schema, orjson.loads(given), len(given))
        now = await self._store.now()
        started = replace(
            before,
            script=script.digest,
            deadline=TimeMs(now + ttl_ms),
            labels=parent.labels if body.labels is None else body.labels,
            started_by=principal.actor,
            parent=Parent(parent.run, "fork"),
            forked_at=now,
            origin=before.origin or _origin(parent, before),
        )
        start = StartRun(
            namespace=namespace.id,
            organization=principal.organization,
            run=RunId(new_id(now)),
            body=encode_body(started),
            epoch=parent.epoch,
            time=first.time,
            ttl_ms=started.deadline - first.time,
            script=script.digest,
            toolset=parent.toolset,
            toolset_digest=parent.toolset_digest,
            workflow=parent.workflow if script.digest == parent.script else None,
            labels=started.labels,
            created_by=(principal.actor.kind, principal.actor.id),
            parent={"run": parent.run, "kind": "fork", "depth": depth_of(parent.parent)},
            fork={"forked_at": now, **({} if body.at is None else {"at": body.at})},
        )
        return Parts(start, script)

    async def _script(
        self, principal: Principal, namespace: NamespaceId, parent: RunRecord, script: str | None
    ) -> Candidate:
        if script is not None:
            return await self._scripts.candidate(
                principal.organization, namespace, script, _toolset(parent), parent.epoch
            )
        compiled = await self._store.get_compiled(namespace, parent.script, parent.epoch)
        if compiled is None:
            raise HistoryUnavailable("The script of this run is not there any more.")
        return Candidate(parent.script, compiled, None, None)

    async def _plan(self, parent: RunRecord, body: ForkBody, parts: Parts, timeout_ms: int) -> bytes:
        """Errors: HistoryUnavailable, Unavailable."""
        plan = await self._sandbox.fork_plan(
            parent.namespace,
            parent=parent.run,
            run=parts.start.run,
            time=parts.start.time,
            at=None if body.at is None else Seq(body.at),
            started=parts.start.body,
            compiled=parts.script.compiled,
            timeout_ms=timeout_ms,
        )
        if plan.gone is not None:
            raise HistoryUnavailable(f"This run cannot be forked: {plan.gone}.")
        return orjson.dumps(plan.report)


def _toolset(parent: RunRecord) -> ToolsetRef | None:
    if parent.toolset is None or parent.toolset_digest is None:
        return None
    return ToolsetRef(parent.toolset, parent.toolset_digest)


def _origin(first: RunRecord, started: RunStarted) -> Origin:
    parent = started.parent
    return Origin(first.run, started.labels, started.deadline, None if parent is None else parent.run)


def refuse_fork(parent: RunRecord, body: ForkBody) -> None:
    """What can be said without the journal. Errors: RunActive, RunQuarantined, EpochUnavailable, ApiError (`at`)."""
    if parent.status is RunStatus.QUARANTINED:
        raise RunQuarantined("The run is quarantined: release or abandon it first.")
    if parent.status is RunStatus.ACTIVE:
        raise RunActive("Only a run that has ended can be forked: wait for its end, or cancel it.")
    if body.at is not None and body.at >= parent.next_seq:
        raise invalid("at", "invalid_value", f"The journal's last entry has the seq {parent.next_seq - 1}.")
    if parent.epoch not in served_epochs():
        raise EpochUnavailable(f"This deployment does not serve epoch {parent.epoch} any more.")


def _replayed(run: RunId, *, same: bool) -> Started:
    if not same:
        raise IdempotencyConflict("This Idempotency-Key was used for another fork.")
    return Started(run, replayed=True)
