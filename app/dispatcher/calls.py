"""One call of a tool that Rewind calls itself: from its claim to the outcome that is recorded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from app.body import VALUE_BYTES_MAX
from app.dispatcher.children import ChildStarter
from app.dispatcher.endpoints import Endpoint, SecretMissing
from app.dispatcher.http_tool import HttpTool
from app.dispatcher.mcp import ServerFailed, ServerRefused, Servers
from app.dispatcher.redaction import Redactor
from app.dispatcher.results import ToolFailed, failed, failure_of, value_of_result
from app.errors import ToolsetInvalid
from app.large import beside_loop
from app.tasks.settling import TOOL_FAILED, completed, invalid_arguments, invalid_result, too_large
from app.toolsets.definition import PinnedTool, retry_after_ms
from app.toolsets.http_tool import SERVER as HTTP
from app.toolsets.service import ToolsetRef, Toolsets
from app.values import Values
from sandbox.compiler.value_checks import problem_of
from sandbox.customers import on_behalf_of
from sandbox.journal.canonical import CanonicalError, canonical_text
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import EntryType, ScheduleToolCall, ToolFailure, Value
from sandbox.journal.errors import Unavailable
from sandbox.journal.fork import idempotency_key
from sandbox.journal.ids import Digest, Json
from sandbox.store.interface import EventAppend, Guard
from sandbox.store.postgres.calls import ClaimedCall
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.sealing import SealBroken

logger = logging.getLogger(__name__)

TIMEOUT_MS = 300_000
"""Of a call that has none."""
PAUSE_S = 0.1
PAUSE_MAX_S = 2.0

STOPPED = ToolFailure(
    "OutcomeUnknownError", None, "the call was told to stop, and whether it took effect is not known"
)
Result = TypeVar("Result")


class Flight:
    """A call in the air. The dispatcher looks at what it says of itself before it does anything to it."""

    def __init__(self, call: ClaimedCall) -> None:
        self.call = call
        self.sent = False
        """The request may have gone out."""
        self.settling = False
        """It has its outcome; nothing must interrupt it any more."""
        self.told_to_stop = False
        self.retry: dict[str, int] | None = None
        self.redactor = Redactor()
        """Takes out of the outcome what the server was shown."""
        self.task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """End the wait for the server; the outcome is then unknown."""
        if self.task is not None and not self.settling and not self.told_to_stop:
            self.told_to_stop = True
            self.task.cancel()

    def drop(self) -> None:
        """Somebody else has settled the call: forget it."""
        if self.task is not None and not self.settling:
            self.task.cancel()


class CallMaker:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        toolsets: Toolsets,
        servers: Servers,
        http: HttpTool,
        values: Values,
        children: ChildStarter,
    ) -> None:
        self._store = store
        self._children = children
        self._toolsets = toolsets
        self._servers = servers
        self._http = http
        self._values = values

    async def serve(self, flight: Flight, claim_id: str) -> None:
        """Make the call and record its outcome, whatever it is; that of a child run comes by itself."""
        call = flight.call
        on_behalf_of(call.organization)
        outcome: Value | ToolFailure | None
        try:
            outcome = await self._make(flight, claim_id)
        except ToolFailed as error:
            outcome = replace(error.failure, message=flight.redactor.message(error.failure.message))
        except asyncio.CancelledError:
            if not flight.told_to_stop:
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            outcome = STOPPED
        except Exception:
            logger.exception("call %d of run %s could not be made", call.call, call.run)
            outcome = failed(TOOL_FAILED, "Rewind could not make this call").failure
        if outcome is None:
            return
        flight.settling = True
        if isinstance(outcome, ToolFailure) and await self._again(flight, claim_id, outcome):
            return
        body = encode_body(completed(call.call, call.attempt, call.begun_at, outcome))
        await _patiently(
            lambda: self._store.append_event(
                EventAppend(
                    namespace=call.namespace,
                    run=call.run,
                    type=EntryType.TOOL_CALL_COMPLETED,
                    body=body,
                    guard=Guard.CALL,
                    n=call.call,
                    attempt=call.attempt,
                )
            )
        )

    async def _again(self, flight: Flight, claim_id: str, failure: ToolFailure) -> bool:
        """Whether the call is offered again, as its tool's `retry` says: never one that may have taken effect."""
        retry = flight.retry
        failed_in_itself = failure.code == TOOL_FAILED or (failure.retryable and failure.code != "timeout")
        if retry is None or not failed_in_itself:
            return False
        after_ms = retry_after_ms(retry, flight.call.attempt)
        if after_ms is None:
            return False
        return await _patiently(lambda: self._store.retry_call(claim_id, flight.call, after_ms))

    async def close(self) -> None:
        """Let go of connections that are kept for further calls."""
        await self._http.close()

    async def _make(self, flight: Flight, claim_id: str) -> Value | None:
        """Errors: ToolFailed."""
        call = flight.call
        scheduled, _ = decode_body(EntryType.SCHEDULE_TOOL_CALL, call.body)
        if not isinstance(scheduled, ScheduleToolCall):
            raise TypeError("not a schedule_tool_call")
        toolset = ToolsetRef(call.toolset, call.toolset_digest)
        tools = await _patiently(lambda: self._toolsets.tools(call.organization, toolset))
        tool = tools.get(call.tool)
        if tool is not None and tool.workflow is not None:
            pin, flight.settling = tool.workflow, True  # it takes no time, and what it does stays done
            return await _patiently(lambda: self._children.start(call, claim_id, scheduled, pin))
        if tool is None or tool.server is None:
            raise failed("tool_removed", f"the toolset {call.toolset!r} has no tool {call.tool!r}")
        flight.retry = tool.retry
        given = await _patiently(lambda: self._values.text(call.namespace, scheduled.args))
        args = orjson.loads(given)
        if (problem := await problem_of(tool.input, given, lambda _: args)) is not None:
            raise ToolFailed(invalid_arguments(problem))
        if not isinstance(args, dict):
            raise ToolFailed(invalid_arguments("the arguments of a tool are an object"))
        asked = await self._prepared(flight, tool.server, tool, args)
        flight.sent = True
        text = await self._ask(flight, tool, asked, scheduled.policy.timeout_ms or TIMEOUT_MS)
        return await _patiently(lambda: self._values.store(call.namespace, text))

    async def _prepared(
        self, flight: Flight, server: str, tool: PinnedTool, args: dict[str, object]
    ) -> Callable[[float], Awaitable[Json]]:
        """What sends the call, and answers the value, when it is given the seconds that are left."""
        call = flight.call
        key = idempotency_key(call.run, call.call, call.body)
        if server == HTTP:
            spec, secrets, flight.redactor = await self._found(
                call, lambda where: self._toolsets.servers.http(call.organization, where, call.namespace)
            )
            return lambda left_s: self._http.request(
                spec, secrets, args, key=key, timeout_s=left_s, redactor=flight.redactor
            )
        endpoint, flight.redactor = await self._found(
            call,
            lambda where: self._toolsets.servers.endpoint(call.organization, where, server, call.namespace),
        )
        return lambda left_s: self._call_tool(flight, endpoint, tool, args, key, left_s)

    async def _call_tool(
        self,
        flight: Flight,
        endpoint: Endpoint,
        tool: PinnedTool,
        args: dict[str, Any],
        key: str,
        left_s: float,
    ) -> Json:
        try:
            result = await self._servers.call_tool(
                endpoint, tool.original, args, key=key, timeout_s=left_s, mirrors=tool.mirrors, task=tool.task
            )
        except (ServerFailed, ServerRefused) as error:
            raise ToolFailed(failure_of(error, idempotent=tool.idempotent)) from None
        except ValidationError:
            raise failed("invalid_result", "the server's answer is no result of a tool") from None
        finally:
            flight.redactor = flight.redactor.also(self._toolsets.servers.shown(endpoint))
        return await beside_loop(value_of_result, result, tool.results, structured=tool.output is not None)

    async def _found(
        self, call: ClaimedCall, find: Callable[[tuple[str, Digest]], Awaitable[Result]]
    ) -> Result:
        """What the toolset says of a server, with secrets. Errors: ToolFailed."""
        where = (call.toolset, call.toolset_digest)
        try:
            return await _patiently(lambda: find(where))
        except SecretMissing as error:
            raise failed("unauthorized", str(error)) from None
        except SealBroken as error:
            logger.error("a server of toolset %s cannot be called: %s", call.toolset, error)
            raise failed("unauthorized", "the server's secrets cannot be opened in this deployment") from None
        except ToolsetInvalid as error:
            raise failed("tool_removed", error.detail) from None

    async def _ask(
        self, flight: Flight, tool: PinnedTool, send: Callable[[float], Awaitable[Json]], timeout_ms: int
    ) -> bytes:
        """Send the call and read the answer: the canonical text of the result, without secrets. Errors: ToolFailed."""
        left_ms = flight.call.left_ms
        left_s = max(0, timeout_ms if left_ms is None else min(left_ms, timeout_ms)) / 1000
        try:
            async with asyncio.timeout(left_s):
                value = await send(left_s)
        except TimeoutError:
            raise failed(
                "timeout", f"the tool did not answer within {timeout_ms / 1000:g} s", retryable=True
            ) from None
        try:
            text = await beside_loop(canonical_text, value)
        except CanonicalError as error:
            raise failed("invalid_result", f"the result {error.path}: {error.message}") from None
        if len(text) > VALUE_BYTES_MAX:
            raise ToolFailed(too_large(len(text), "result"))
        problem = None if tool.output is None else await problem_of(tool.output, text, lambda _: value)
        if problem is not None:
            raise ToolFailed(invalid_result(problem))
        return await beside_loop(_without_secrets, text, value, flight.redactor)


def _without_secrets(text: bytes, value: Json, redactor: Redactor) -> bytes:
    return canonical_text(redactor.value(value)) if redactor.hits(text) else text


async def _patiently(work: Callable[[], Awaitable[Result]]) -> Result:
    """Do what is harmless to repeat until the database or the object store answers."""
    pause_s = PAUSE_S
    while True:
        try:
            return await work()
        except Unavailable as error:
            logger.warning("a call waits: %s", error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, PAUSE_MAX_S)
