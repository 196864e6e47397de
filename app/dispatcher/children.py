"""Calls of workflows: a child run for each, its end for the call that waits for it, and its cancel with its parent.

Whatever dies in between, a call starts one child: its id follows from the call, and being started, held and told of
are each one transaction that may be repeated. Ends and losses are rows of an outbox, deleted when they are handled.
"""

import asyncio
import hashlib
import logging
import secrets
import uuid

from app.dispatcher.results import ToolFailed, failed
from app.runs.views import ending_of
from app.scripts.input import input_errors
from app.scripts.service import Scripts
from app.tasks.settling import completed, invalid_arguments
from app.toolsets.workflow_tools import WorkflowPin
from app.values import Values
from app.workflows.repository import WorkflowVersion
from app.workflows.service import Workflows, program_of
from sandbox.journal.canonical import parse_json, value_of
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import (
    Actor,
    CancelRequested,
    CompleteRun,
    EntryType,
    Limits,
    Parent,
    RunStarted,
    ScheduleToolCall,
    ToolFailure,
    Value,
)
from sandbox.journal.errors import QuotaExceeded
from sandbox.journal.fork import idempotency_key
from sandbox.journal.ids import Epoch, Json, NamespaceId, RunId, Seq, TimeMs
from sandbox.journal.messages import bounded, cut
from sandbox.store.interface import EventAppend, Guard, RunStatus, StartRun, StoredEntry
from sandbox.store.postgres.calls import CallKey, ClaimedCall
from sandbox.store.postgres.children import CallPlace, ChildNews, ChildStart
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.keys import DataErased

logger = logging.getLogger(__name__)

DEPTH_MAX = 16
"""Workflows that call each other."""
TTL_MS_MAX = 30 * 86_400_000
NEWS_AT_ONCE = 100
STOPS_AT_ONCE = 1_000


def child_id(run: RunId, call: int, since: TimeMs) -> RunId:
    """The child of a call: a UUIDv7 of the time of the call, in which calls made at the same time keep their order."""
    digest = hashlib.sha256(f"rewind/child\n{run}/{call}".encode()).digest()
    bits = (int(since) & (1 << 48) - 1) << 80 | 0x7 << 76 | (call & 0xFFF) << 64
    return RunId(str(uuid.UUID(int=bits | 0x2 << 62 | int.from_bytes(digest[:8], "big") >> 2)))


class ChildStarter:
    """Starts the run that a claimed call of a workflow stands for."""

    def __init__(
        self, *, store: PostgresEdge, scripts: Scripts, workflows: Workflows, values: Values, epoch: Epoch
    ) -> None:
        self._store = store
        self._scripts = scripts
        self._workflows = workflows
        self._values = values
        self._epoch = epoch

    async def start(
        self, call: ClaimedCall, claim_id: str, scheduled: ScheduleToolCall, pin: WorkflowPin
    ) -> Value | None:
        """The call's result; None: it has none yet, or is not this claim's any more.

        Again is harmless. Errors: ToolFailed, Unavailable.
        """
        place = await self._store.call_place(call.key, claim_id)
        if place is None:
            return None
        earlier = await self._store.started_child(_first_made(call))
        child, request = earlier or child_id(call.run, call.call, place.since), None
        if earlier is None:
            request = await self._request(call, scheduled, pin, place, child)
        try:
            begun = await self._store.start_child(call.key, claim_id, child, request, awaited=pin.awaited)
        except QuotaExceeded as error:
            raise failed("rate_limited", str(error), retryable=True) from None
        if begun is ChildStart.GONE or pin.awaited:
            return None
        return value_of({"id": child})

    async def _request(
        self,
        call: ClaimedCall,
        scheduled: ScheduleToolCall,
        pin: WorkflowPin,
        place: CallPlace,
        child: RunId,
    ) -> StartRun:
        """Errors: ToolFailed for what keeps the child from being started."""
        if place.stopping:
            message = "the run was told to stop before the workflow's run was started"
            raise ToolFailed(ToolFailure("CancelledError", None, message))
        if place.depth >= DEPTH_MAX:
            raise failed(
                "tool_failed",
                f"workflows call each other at most {DEPTH_MAX} deep, and this run is at that depth: "
                f"it cannot call `{pin.name}`",
            )
        version = await self._workflows.version(call.organization, pin.name, pin.digest)
        if version is None:
            raise failed("tool_removed", f"the version of the workflow `{pin.name}` that was pinned is gone")
        await self._check_input(call, scheduled.args, version)
        program = program_of(version)
        try:
            report = await self._scripts.ensure(call.organization, call.namespace, program)
        except QuotaExceeded as error:
            raise failed("rate_limited", str(error), retryable=True) from None
        if not report.ok:
            raise failed("tool_failed", f"the script of the workflow `{pin.name}` cannot run any more")
        deadline = TimeMs(min(place.deadline, place.now + TTL_MS_MAX))
        actor = Actor("run", call.run)
        started = RunStarted(
            input=scheduled.args,
            script=version.script,
            toolset=None if program.toolset is None else program.toolset.text,
            seed=secrets.token_hex(16),
            epoch=self._epoch,
            deadline=deadline,
            labels={},
            limits=Limits(),
            started_by=actor,
            parent=Parent(call.run, "workflow", call.call),
        )
        parent: dict[str, Json] = {"run": call.run, "kind": "workflow", "call": call.call}
        return StartRun(
            namespace=call.namespace,
            organization=call.organization,
            run=child,
            body=encode_body(started),
            epoch=self._epoch,
            time=place.now,
            ttl_ms=deadline - place.now,
            script=version.script,
            toolset=None if program.toolset is None else program.toolset.name,
            toolset_digest=None if program.toolset is None else program.toolset.digest,
            workflow=pin.name,
            labels={},
            created_by=(actor.kind, actor.id),
            parent={**parent, "awaited": pin.awaited, "depth": place.depth + 1},
        )

    async def _check_input(self, call: ClaimedCall, args: Value, version: WorkflowVersion) -> None:
        if version.checked.input_schema is True:
            return
        given = parse_json((await self._values.text(call.namespace, args)).decode())
        errors = input_errors(version.checked.input_schema, given)
        if errors:
            raise ToolFailed(invalid_arguments(f"{errors[0].path}: {errors[0].message}"))


class ChildEnds:
    """Tells whoever awaits a child of its end, and cancels the children of runs that are stopped or have ended."""

    def __init__(self, store: PostgresEdge) -> None:
        self._store = store

    async def handle(self) -> None:
        """Handle all that there is. Errors: Unavailable; what was handled by then stays so."""
        await self._stop_children()
        while news := await self._store.read_child_news(NEWS_AT_ONCE):
            await asyncio.gather(*(self._handle(one) for one in news))
            await self._store.forget_child_news(news)
            if len(news) < NEWS_AT_ONCE:
                return

    async def _handle(self, news: ChildNews) -> None:
        try:
            if news.orphaned:
                await self._cancel(news.namespace, news.parent, news.run)
            else:
                await self._tell(news)
        except DataErased:
            logger.info("the end of run %s is told to nobody: its namespace was erased", news.run)

    async def _tell(self, news: ChildNews) -> None:
        waiters = await self._store.calls_held_by(news.namespace, news.run)
        if not waiters:
            return
        assert news.end_seq is not None  # a run that has ended has an end
        (end,) = await self._store.read_entries(
            news.namespace, news.run, after=Seq(news.end_seq - 1), limit=1
        )
        outcome = outcome_of(news, end)
        for waiter in waiters:
            body = completed(waiter.call, waiter.attempt, waiter.begun_at, outcome)
            await self._store.append_event(
                EventAppend(
                    namespace=news.namespace,
                    run=waiter.run,
                    type=EntryType.TOOL_CALL_COMPLETED,
                    body=encode_body(body),
                    guard=Guard.CALL,
                    n=waiter.call,
                    attempt=waiter.attempt,
                )
            )

    async def _stop_children(self) -> None:
        while stopping := await self._store.children_to_stop(STOPS_AT_ONCE):
            await asyncio.gather(*(self._cancel(*one) for one in stopping))
            if len(stopping) < STOPS_AT_ONCE:
                return

    async def _cancel(self, namespace: NamespaceId, parent: RunId, child: RunId) -> None:
        body = encode_body(CancelRequested(reason="parent", by=f"run:{parent}"))
        try:
            await self._store.append_event(
                EventAppend(namespace, child, EntryType.CANCEL_REQUESTED, body, Guard.CANCEL)
            )
        except DataErased:
            logger.info("run %s is not cancelled: its namespace was erased", child)


def outcome_of(news: ChildNews, end: StoredEntry) -> Value | ToolFailure:
    """What the call gets of a child that has ended: its output, or its failure to be thrown."""
    body, _ = decode_body(end.type, end.body)
    run: dict[str, Json] = {"run": news.run}
    if isinstance(body, CompleteRun):
        if not body.output.redacted:
            return body.output
        return _failure("ToolError", "tool_failed", "the output of the workflow's run was redacted", run)
    error, reason = ending_of(end)
    if news.status is RunStatus.CANCELLED or error is None:
        message = f"the run of the workflow `{news.workflow}` was cancelled: {reason}"
        return _failure("CancelledError", None, message, run)
    about = run | {name: error[name] for name in ("name", "message", "code") if name in error}
    if news.status is RunStatus.ABORTED:
        return _failure("LimitError", error.get("code"), str(error["message"]), about)
    return _failure("ToolError", error.get("code") or "tool_failed", str(error["message"]), about)


def _failure(name: str, code: Json, message: str, data: dict[str, Json]) -> ToolFailure:
    told = value_of({**data, **({"message": cut(str(data["message"]))} if "message" in data else {})})
    return bounded(ToolFailure(name, None if code is None else str(code), message, told))


def _first_made(call: ClaimedCall) -> CallKey:
    """The call itself; of a fork that goes on with a call of an earlier run, that one."""
    run, _, number = idempotency_key(call.run, call.call, call.body).partition("/")
    return (call.namespace, RunId(run), int(number))
