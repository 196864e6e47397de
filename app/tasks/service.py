"""Settling of tasks: each item is judged by itself, and a repeat of what was recorded is no error."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from app.body import VALUE_BYTES_MAX
from app.tasks.claims import Claims
from app.tasks.handing_out import LEASE_MS
from app.tasks.leases import Lease, Leases
from app.tasks.repository import TaskRepository
from app.tasks.schemas import CompleteItem, DeferItem, FailItem, HeartbeatItem, ReleaseItem
from app.tasks.settling import (
    TOOL_FAILED,
    checked_text,
    completed,
    invalid_result,
    same_outcome,
    too_large,
)
from app.tasks.tokens import decode_token
from app.toolsets.definition import retry_after_ms
from app.values import Values
from sandbox.compiler.value_checks import problem_of
from sandbox.journal.codec import decode_body, encode_body
from sandbox.journal.entries import EntryType, ToolCallCompleted, ToolFailure, Value
from sandbox.store.interface import EventAppend, EventOutcome, Guard
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.tasks import TaskKey
from tenancy.principals import Principal
from tenancy.service import Tenancy

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settlement:
    """A checked item: the outcome to record, and the refusal that its sender gets for it, if any."""

    item: CompleteItem | FailItem
    key: TaskKey
    lease: Lease
    outcome: Value | ToolFailure
    refusal: str | None = None
    """Detail of a `too_large`: the script gets the failure, the sender is told."""


class Tasks:
    def __init__(
        self,
        *,
        store: PostgresEdge,
        repository: TaskRepository,
        leases: Leases,
        claims: Claims,
        tenancy: Tenancy,
        values: Values,
    ) -> None:
        self.claims = claims
        self._store = store
        self._repository = repository
        self._leases = leases
        self._tenancy = tenancy
        self._values = values

    # -- Outcomes

    async def complete(self, principal: Principal, items: Sequence[CompleteItem]) -> list[Result]:
        """Record results. ApiError, and nothing is recorded, when one of them cannot be a value."""
        texts = [await checked_text(item.result, f"items[{i}].result") for i, item in enumerate(items)]
        return await _each(
            [self._complete(principal, item, text) for item, text in zip(items, texts, strict=True)]
        )

    async def fail(self, principal: Principal, items: Sequence[FailItem]) -> list[Result]:
        """Record failures, or offer the call again where its tool's `retry` says so."""
        texts = [
            await checked_text(item.error.data, f"items[{i}].error.data")
            if "data" in item.error.model_fields_set
            else None
            for i, item in enumerate(items)
        ]
        return await _each(
            [self._fail(principal, item, text) for item, text in zip(items, texts, strict=True)]
        )

    async def _complete(self, principal: Principal, item: CompleteItem, text: bytes) -> Result:
        key, lease = await self._find(principal, item.token)
        if key is None or lease is None:
            return _unknown(item.token)
        if len(text) > VALUE_BYTES_MAX:
            failure = too_large(len(text), "result")
            return await self._settle(principal, Settlement(item, key, lease, failure, failure.message))
        validator = None if lease.tool is None else lease.tool.output
        problem = None if validator is None else await problem_of(validator, text, lambda _: item.result)
        outcome: Value | ToolFailure
        if problem is not None:
            outcome = invalid_result(problem)
        else:
            outcome = await self._values.store(key[0], text)
        return await self._settle(principal, Settlement(item, key, lease, outcome))

    async def _fail(self, principal: Principal, item: FailItem, text: bytes | None) -> Result:
        key, lease = await self._find(principal, item.token)
        if key is None or lease is None:
            return _unknown(item.token)
        error = item.error
        retry = None if lease.tool is None else lease.tool.retry
        if retry is not None and error.retryable is not False:
            after_ms = retry_after_ms(retry, key[3])
            if after_ms is not None and await self._repository.offer_again(key, after_ms):
                self._leases.forget(key)
                return {"token": item.token, "ok": True}
        if text is not None and len(text) > VALUE_BYTES_MAX:
            failure = too_large(len(text), "error data")
            return await self._settle(principal, Settlement(item, key, lease, failure, failure.message))
        failure = ToolFailure(
            name="ToolError",
            code=error.code or TOOL_FAILED,
            message=error.message,
            data=None if text is None else await self._values.store(key[0], text),
            retryable=bool(error.retryable),
        )
        return await self._settle(principal, Settlement(item, key, lease, failure))

    async def _settle(self, principal: Principal, settlement: Settlement) -> Result:
        namespace, run, call, attempt, _ = settlement.key
        body = completed(call, attempt, settlement.lease.begun_at, settlement.outcome)
        token = settlement.item.token
        verdict = await self._store.append_event(
            EventAppend(
                namespace=namespace,
                run=run,
                type=EntryType.TOOL_CALL_COMPLETED,
                body=encode_body(body),
                guard=Guard.CALL,
                n=call,
                attempt=attempt,
            )
        )
        self._leases.forget(settlement.key)
        if (tool := settlement.lease.tool) is not None and tool.paced:
            toolset = await self._leases.toolset_of(settlement.key)
            self.claims.look_again(principal.organization, namespace, toolset, tool.name)
        if verdict.outcome is EventOutcome.UNKNOWN:
            return _unknown(token)
        if verdict.outcome is not EventOutcome.APPENDED and not await self._repeated(settlement.key, body):
            detail = "The call has another outcome already, or was given to another worker."
            return _refused(token, "task_settled", detail)
        if settlement.refusal is not None:
            return _refused(token, "too_large", f"{settlement.refusal}; the script gets this as ToolError.")
        return {"token": token, "ok": True}

    async def _repeated(self, key: TaskKey, ours: ToolCallCompleted) -> bool:
        namespace, run, call, *_ = key
        entry = await self._store.find_entry(namespace, run, EntryType.TOOL_CALL_COMPLETED, call)
        if entry is None:
            return False
        recorded, _ = decode_body(entry.type, entry.body)
        return isinstance(recorded, ToolCallCompleted) and same_outcome(recorded, ours)

    # -- Leases

    async def heartbeat(self, principal: Principal, items: Sequence[HeartbeatItem]) -> list[Result]:
        """Lengthen leases, and say which tasks are told to stop."""

        async def beat(keys: list[TaskKey], _: list[HeartbeatItem]) -> list[Result | None]:
            beats = await self._store.heartbeat_tasks(keys, LEASE_MS)
            return [
                None if until is None else {"lease_ms": LEASE_MS, "cancel": stopping}
                for until, stopping in beats
            ]

        return await self._lease_call(principal, items, beat)

    async def defer(self, principal: Principal, items: Sequence[DeferItem]) -> list[Result]:
        """Keep tasks open without a lease: whoever has the token completes them later."""

        async def defer(keys: list[TaskKey], given: list[DeferItem]) -> list[Result | None]:
            done = await self._store.defer_tasks(keys, [item.expires for item in given])
            return [{} if ok else None for ok in done]

        return await self._lease_call(principal, items, defer)

    async def release(self, principal: Principal, items: Sequence[ReleaseItem]) -> list[Result]:
        """Give tasks back that were not started."""

        async def release(keys: list[TaskKey], given: list[ReleaseItem]) -> list[Result | None]:
            done = await self._store.release_tasks(keys, [item.after for item in given])
            for key, ok in zip(keys, done, strict=True):
                if ok:
                    self._leases.forget(key)
            return [{} if ok else None for ok in done]

        return await self._lease_call(principal, items, release)

    async def _lease_call(
        self,
        principal: Principal,
        items: Sequence[Any],
        call: Callable[[list[TaskKey], list[Any]], Awaitable[list[Result | None]]],
    ) -> list[Result]:
        """One call of the store for all items whose tokens are the caller's; each token once."""
        owned: dict[TaskKey, Any] = {}
        keys: list[TaskKey | None] = []
        for item in items:
            key = await self._owned(principal, item.token)
            keys.append(key)
            if key is not None:
                owned.setdefault(key, item)
        done: dict[TaskKey, Result | None] = {}
        if owned:
            answers = await call(list(owned), list(owned.values()))
            done = dict(zip(owned, answers, strict=True))
        results = []
        for item, key in zip(items, keys, strict=True):
            if key is None:
                results.append(_unknown(item.token))
            elif (answer := done[key]) is None:
                detail = "The call has its outcome already, or was given to another worker."
                results.append(_refused(item.token, "task_settled", detail))
            else:
                results.append({"token": item.token, "ok": True, **answer})
        return results

    # -- Tokens

    async def _find(self, principal: Principal, token: str) -> tuple[TaskKey | None, Lease | None]:
        key = await self._owned(principal, token)
        return key, None if key is None else await self._leases.find(key)

    async def _owned(self, principal: Principal, token: str) -> TaskKey | None:
        """What the token stands for, when the caller may settle it: the token itself is no credential."""
        key = decode_token(token)
        if key is None or not await self._tenancy.owns(principal, key[0]):
            return None
        narrow = principal.narrow
        if narrow.run is not None and narrow.run != key[1]:
            return None
        if narrow.toolset is not None and await self._leases.toolset_of(key) != narrow.toolset:
            return None
        return key


async def _each(calls: Sequence[Awaitable[Result]]) -> list[Result]:
    """All at once, so that their appends share a commit."""
    return [await calls[0]] if len(calls) == 1 else list(await asyncio.gather(*calls))


def _unknown(token: str) -> Result:
    return _refused(token, "unknown_token", "No task of yours has this token.")


def _refused(token: str, code: str, detail: str) -> Result:
    return {"token": token, "ok": False, "code": code, "detail": detail}
