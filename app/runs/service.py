"""Starting runs, waiting for them, reading them, cancelling them."""

import asyncio
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.errors import RunActive, RunEnded, invalid
from app.runs.repository import RunRepository
from app.runs.schemas import StartRunBody, Until
from app.runs.views import RunTexts, blocked, floor_boundary, output_of, run_view
from app.scripts.service import ScriptReport, Scripts
from app.toolsets.service import REFERENCE, ToolsetRef, Toolsets
from app.turns import Turns
from app.values import Values
from app.workflows.service import Workflows, program_of
from sandbox.journal.codec import encode_body, value_in
from sandbox.journal.entries import CancelRequested, EntryType, Limits, RunStarted, Value
from sandbox.journal.ids import Epoch, NamespaceId, RunId, Seq, Sha256, TimeMs
from sandbox.store.hints import POLL_MAX_S
from sandbox.store.interface import (
    FROM_START,
    EventAppend,
    EventOutcome,
    Guard,
    RunRecord,
    RunStatus,
    StartOutcome,
    StartRun,
    StoredEntry,
)
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.values import VALUE_TYPES, is_named
from sandbox.store.wakeups import Wakeups
from tenancy.errors import IdempotencyConflict, NotFound
from tenancy.ids import new_id, parse_id
from tenancy.principals import NamespaceRef, Principal
from tenancy.quotas.service import Quotas
from tenancy.repository import NO_NAMESPACE

ROUTE = "POST /v1/runs"
BATCH_ROUTE = "POST /v1/runs/batch"
FRESH_S = 0.02
"""How old the time of a start may be when its run is recorded."""
STARTS_AT_ONCE = 3
"""Of one namespace: fewer than there are connections, so that another's start finds one."""
ENTRIES_AT_ONCE = 200
SHA256 = re.compile(r"[0-9a-f]{64}")
TEXTS_AT_ONCE = 8
"""Big values fetched at the same time for one page of runs."""


@dataclass(frozen=True, slots=True)
class Started:
    run: RunId
    replayed: bool


class Runs:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        repository: RunRepository,
        scripts: Scripts,
        toolsets: Toolsets,
        workflows: Workflows,
        quotas: Quotas,
        values: Values,
        wakeups: Wakeups,
        epoch: Epoch,
        stop: asyncio.Event,
    ) -> None:
        self.store = store
        self.values = values
        self._repository = repository
        self._scripts = scripts
        self._toolsets = toolsets
        self._workflows = workflows
        self._quotas = quotas
        self._wakeups = wakeups
        self._epoch = epoch
        self._stop = stop
        self._turns = Turns(STARTS_AT_ONCE)

    async def start(
        self,
        principal: Principal,
        namespace: NamespaceRef,
        body: StartRunBody,
        *,
        key: str | None,
        request_sha256: bytes,
        route: str = ROUTE,
    ) -> Started:
        """Start a run, or answer the one that this idempotency key started before.

        Errors: UnknownWorkflow, QuotaExceeded, NotFound, ScriptRefused, UnknownToolset, TooLarge,
        IdempotencyConflict, InputRefused, Unavailable.
        """
        async with self._turns.of(namespace.id):
            known = await self._repository.before_start(principal.organization, namespace.id, route, key)
            if known["object_id"] is not None:
                same = known["request_sha256"] == request_sha256
                return self._replay(RunId(known["object_id"]), same=same)
            checked_body(body)
            ttl_ms = await self._quotas.ttl_ms(principal.organization, namespace.id, body.ttl)
            request = await self._request(principal, namespace, body, ttl_ms, TimeMs(known["now"]))
            verdict = await self.store.start_run(
                replace(request, route=route, idempotency_key=key, request_sha256=request_sha256)
            )
        if verdict.outcome is not StartOutcome.STARTED:
            return self._replay(verdict.run, same=verdict.outcome is StartOutcome.REPLAYED)
        return Started(request.run, replayed=False)

    async def reserve_batch(self, principal: Principal, key: str, request_sha256: bytes) -> None:
        """Note what a batch's key was used for. IdempotencyConflict when that was another batch."""
        within = NO_NAMESPACE if principal.namespace is None else principal.namespace.id
        known = await self._repository.reserve_batch(
            principal.organization, within, BATCH_ROUTE, key, request_sha256
        )
        if known != request_sha256:
            raise IdempotencyConflict("This Idempotency-Key was used for another batch.")

    async def _request(
        self, principal: Principal, namespace: NamespaceRef, body: StartRunBody, ttl_ms: int, now: TimeMs
    ) -> StartRun:
        """Fix everything that the run will depend on: script, toolset version, input, seed, deadline."""
        asked_at = asyncio.get_running_loop().time()
        report, toolset = await self._program(principal, namespace.id, body)
        report.require_ok()
        text = await self.values.canonical(body.input, "input")
        await report.require_input(body.input)
        taken = await self.values.store(namespace.id, text)
        if asyncio.get_running_loop().time() - asked_at > FRESH_S:  # a new script was checked meanwhile
            now = await self.store.now()
        begins = TimeMs(max(now, int(body.start_at or 0)))
        started = RunStarted(
            input=taken,
            script=report.digest,
            toolset=None if toolset is None else toolset.text,
            seed=secrets.token_hex(16),
            epoch=self._epoch,
            deadline=TimeMs(begins + ttl_ms),
            labels=body.labels,
            limits=Limits(),
            started_by=principal.actor,
        )
        return StartRun(
            namespace=namespace.id,
            organization=principal.organization,
            run=RunId(new_id(now)),
            body=encode_body(started),
            epoch=self._epoch,
            time=begins,
            ttl_ms=ttl_ms,
            script=report.digest,
            toolset=None if toolset is None else toolset.name,
            toolset_digest=None if toolset is None else toolset.digest,
            workflow=body.workflow,
            labels=body.labels,
            created_by=(principal.actor.kind, principal.actor.id),
            held=begins > now,
        )

    async def _program(
        self, principal: Principal, namespace: NamespaceId, body: StartRunBody
    ) -> tuple[ScriptReport, ToolsetRef | None]:
        organization = principal.organization
        if body.workflow is not None:
            program = program_of(await self._workflows.latest(organization, body.workflow))
            toolset = program.toolset
            principal.require_toolset_of(body.workflow, None if toolset is None else toolset.name)
            return await self._scripts.ensure(organization, namespace, program), toolset
        assert body.script is not None  # checked_body
        toolset = None
        if body.toolset is not None:
            toolset = await self._toolsets.resolve(organization, body.toolset)
        return await self._scripts.check(organization, namespace, body.script, toolset), toolset

    def _replay(self, run: RunId, *, same: bool) -> Started:
        if not same:
            raise IdempotencyConflict("This Idempotency-Key was used to start another run.")
        return Started(run, replayed=True)

    # -- Reading

    async def find(self, principal: Principal, namespace: NamespaceRef, run: str) -> RunRecord:
        """A run by the id of a request."""
        return await self.record(namespace.id, checked_run(principal, run))

    async def record(self, namespace: NamespaceId, run: RunId) -> RunRecord:
        found = await self.store.get_run(namespace, run)
        if found is None:
            raise NotFound(f"There is no run {run} in this namespace.")
        return found

    async def wait(self, namespace: NamespaceId, run: RunId, wait_ms: int, until: Until) -> RunRecord:
        """Return the run as it is at the first of ended, quarantined, blocked if asked for, or elapsed.

        Errors: NotFound.
        """
        if not wait_ms:
            return await self.record(namespace, run)
        loop = asyncio.get_running_loop()
        ends = loop.time() + wait_ms / 1000
        until_blocked = until == "blocked"
        window_ends = TimeMs(await self.store.now() + wait_ms if until_blocked else 0)
        with self._wakeups.watch_run(run, only_its_end=not until_blocked) as watch:
            while True:
                left = ends - loop.time()
                status = await self._repository.status(namespace, run)
                if left <= 0 or self._stop.is_set() or await self._over(namespace, run, status):
                    return await self.record(namespace, run)
                if until_blocked and status is RunStatus.ACTIVE:
                    record = await self.record(namespace, run)
                    if record.status is not RunStatus.ACTIVE or await self._blocked(record, window_ends):
                        return record
                await watch.wait(min(left, _next_look_s(loop.time())))

    async def _over(self, namespace: NamespaceId, run: RunId, status: RunStatus | None) -> bool:
        """There is nothing to wait for. An abandoned run is quarantined until its calls are settled: it ends soon."""
        if status is RunStatus.QUARANTINED:
            return not await self._repository.abandoned(namespace, run)
        return status is not RunStatus.ACTIVE

    async def _blocked(self, record: RunRecord, until: TimeMs) -> bool:
        known = blocked(record, until)
        if known is not None:
            return known
        return await self._repository.only_outsiders_pending(record.namespace, record.run, until)

    async def views(self, records: Sequence[RunRecord]) -> list[dict[str, Any]]:
        """The Run objects of runs of one namespace."""
        if not records:
            return []
        places = [(record.run, 0) for record in records]
        places += [(record.run, record.end_seq) for record in records if record.end_seq is not None]
        namespace = records[0].namespace
        entries = await self._repository.entries_at(namespace, places)
        checked = list(dict.fromkeys((record.script, record.toolset_digest) for record in records))
        found = await asyncio.gather(*(self._scripts.warnings(namespace, *pair) for pair in checked))
        warnings = dict(zip(checked, found, strict=True))
        at_once = asyncio.Semaphore(TEXTS_AT_ONCE)

        async def view(record: RunRecord) -> dict[str, Any]:
            end = None if record.end_seq is None else entries.get((record.run, record.end_seq))
            async with at_once:
                texts = await self._texts(record, entries.get((record.run, 0)), end, alone=len(records) == 1)
            reason = None
            if record.status is RunStatus.QUARANTINED:
                reason = await self._quarantine_reason(record)
            return run_view(
                record,
                end=end,
                texts=texts,
                warnings=warnings[record.script, record.toolset_digest],
                quarantine_reason=reason,
            )

        return await asyncio.gather(*(view(record) for record in records))

    async def view(self, record: RunRecord) -> dict[str, Any]:
        return (await self.views([record]))[0]

    async def _texts(
        self, record: RunRecord, start: StoredEntry | None, end: StoredEntry | None, *, alone: bool
    ) -> RunTexts:
        given = None if start is None else value_in(start.body)
        output = output_of(end)
        shown = None
        # In a list, an input that is not inline is left out: a page could otherwise be gigabytes.
        if given is not None and not given.redacted and (alone or given.text is not None):
            shown = await self.values.text(record.namespace, given)
        text = None
        if output is not None and not output.redacted:
            text = await self.values.text(record.namespace, output)
        return RunTexts(shown, text)

    async def _quarantine_reason(self, record: RunRecord) -> str | None:
        report = await self.store.quarantine_report(record.namespace, record.run)
        found = None if report is None else orjson.loads(report)
        if not isinstance(found, dict):
            return None
        return str(found.get("reason") or found.get("code") or "quarantined")

    async def output(self, record: RunRecord, offset: int, limit: int) -> dict[str, Any]:
        """A piece of the output's JSON text. RunActive before the end, NotFound when there is none."""
        if record.ended_at is None:
            raise RunActive("The run has not ended: it has no output yet.")
        assert record.end_seq is not None  # a run that has ended has an end
        end = await self.store.read_entries(
            record.namespace, record.run, after=Seq(record.end_seq - 1), limit=1
        )
        output = output_of(end[0] if end else None)
        if output is None:
            raise NotFound(f"The run has no output: it is {record.status.name.lower()}.")
        if output.redacted:
            raise NotFound("The output of this run was redacted: only its digest is left, in the journal.")
        if offset > output.bytes:
            raise invalid("offset", "invalid_value", f"The output has {output.bytes} bytes.")
        text = await self.values.text(record.namespace, output)
        start = floor_boundary(text, offset)
        stop = floor_boundary(text, start + limit)
        while stop <= start < len(text):  # a limit smaller than the character: give it whole
            limit += 1
            stop = floor_boundary(text, start + limit)
        return {
            "text": text[start:stop].decode(),
            "offset": start,
            "bytes": stop - start,
            "total": len(text),
            "next": stop if stop < len(text) else None,
        }

    async def value(self, record: RunRecord, sha256: str) -> bytes:
        """The canonical text of a value that this run's journal names.

        Errors: NotFound when it names no such value, or names it redacted; Unavailable.
        """
        digits = sha256.removeprefix("sha256:")
        if SHA256.fullmatch(digits) is not None:
            wanted = Sha256(digits)
            if await is_named(self.store.pool, record.namespace, wanted, record.run):
                return await self.values.text(record.namespace, Value(wanted, 0, None))
            found = await self._inline(record, wanted)
            if found is not None:
                return found
        raise NotFound(f"The run's journal names no value {sha256[:80]!r}.")

    async def _inline(self, record: RunRecord, wanted: Sha256) -> bytes | None:
        """A value that stands in an entry: the journal is its only index."""
        after, needle = FROM_START, wanted.encode()
        while entries := await self.store.read_entries(
            record.namespace, record.run, after=after, limit=ENTRIES_AT_ONCE
        ):
            for entry in entries:
                value = value_in(entry.body) if entry.type in VALUE_TYPES and needle in entry.body else None
                if value is not None and value.sha256 == wanted and value.text is not None:
                    return value.text
            after = entries[-1].seq
        return None

    # -- Acting

    async def cancel(self, principal: Principal, record: RunRecord, reason: str | None) -> RunRecord:
        """Ask the run to stop; once asked, asking again changes nothing."""
        body = CancelRequested(reason="user", by=f"{principal.kind}:{principal.id}", detail=reason)
        verdict = await self.store.append_event(
            EventAppend(
                namespace=record.namespace,
                run=record.run,
                type=EntryType.CANCEL_REQUESTED,
                body=encode_body(body),
                guard=Guard.CANCEL,
            )
        )
        if verdict.outcome is EventOutcome.ENDED:
            raise RunEnded(f"The run has ended: it is {(await self._status(record))}.")
        if verdict.outcome is EventOutcome.UNKNOWN:
            raise NotFound(f"There is no run {record.run} in this namespace.")
        return await self.record(record.namespace, record.run)

    async def _status(self, record: RunRecord) -> str:
        return (await self.record(record.namespace, record.run)).status.name.lower()


def _next_look_s(now_s: float) -> float:
    """Until waiters look without a hint: all at the same moments, so that a thousand share a few queries."""
    return POLL_MAX_S - now_s % POLL_MAX_S


def checked_run(principal: Principal, run: str) -> RunId:
    """The id of a request's path; what is no id belongs to no run."""
    found = parse_id(run)
    if found is None:
        raise NotFound(f"There is no run {run[:80]!r} in this namespace.")
    principal.require_run(RunId(found))
    return RunId(found)


def require_start(principal: Principal, body: StartRunBody) -> None:
    """What a narrowed token may start."""
    reference = None if body.toolset is None else REFERENCE.fullmatch(body.toolset)
    name = body.toolset if reference is None else reference[1]
    principal.require_start(toolset=name, workflow=body.workflow)


def checked_body(body: StartRunBody) -> None:
    """What no database is needed for."""
    if body.traceparent is not None:
        raise invalid("traceparent", "not_available", "This deployment does not have this yet: leave it out.")
    if (body.script is None) == (body.workflow is None):
        raise invalid("script", "missing", "Give either `script` or `workflow`.")
    if body.workflow is not None and body.toolset is not None:
        raise invalid("toolset", "not_allowed", "A workflow has its own toolset: leave this out.")
