"""From leased calls to the tasks that a worker gets; what may not be sent is completed here instead.

A call's arguments are checked against the tool's pinned input schema before anyone sees them.
"""

from collections.abc import Sequence
from typing import Any

import orjson

from app.responses import spliced
from app.tasks.leases import Leases
from app.tasks.settling import completed, invalid_arguments
from app.tasks.tokens import encode_token
from app.toolsets.definition import PinnedTool
from app.values import Values
from sandbox.compiler.value_checks import problem_of
from sandbox.journal.codec import encode_body, value_in
from sandbox.journal.entries import EntryType, ToolFailure
from sandbox.journal.fork import idempotency_key
from sandbox.store.interface import EventAppend, Guard, Task
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.tasks import key_of

LEASE_MS = 30_000


class HandingOut:
    def __init__(self, store: PostgresEdge, leases: Leases, values: Values) -> None:
        self._store = store
        self._leases = leases
        self._values = values

    async def views(self, tasks: Sequence[Task]) -> list[dict[str, Any]]:
        """The tasks as their worker sees them, less those whose arguments are not what the tool declares."""
        if not tasks:
            return []
        tools = await self._leases.hand_out(tasks)
        views = []
        for task, tool in zip(tasks, tools, strict=True):
            args = value_in(task.body)
            assert args is not None  # a schedule_tool_call has its arguments
            text = args.text if args.text is not None else await self._values.text(task.namespace, args)
            problem = None if tool is None else await problem_of(tool.input, text, orjson.loads)
            if problem is None:
                views.append(_view(task, tool, text))
            else:
                await self._complete(task, invalid_arguments(problem))
        return views

    async def _complete(self, task: Task, failure: ToolFailure) -> None:
        body = completed(task.call, task.attempt, task.begun_at, failure)
        self._leases.forget(key_of(task))
        await self._store.append_event(
            EventAppend(
                namespace=task.namespace,
                run=task.run,
                type=EntryType.TOOL_CALL_COMPLETED,
                body=encode_body(body),
                guard=Guard.CALL,
                n=task.call,
                attempt=task.attempt,
            )
        )


def _view(task: Task, tool: PinnedTool | None, args: bytes) -> dict[str, Any]:
    return {
        "token": encode_token(key_of(task)),
        "run": task.run,
        "namespace": task.namespace_name,
        "call": task.call,
        "tool": task.tool if tool is None else tool.original,
        "args": spliced(args),
        "attempt": task.attempt,
        "idempotency_key": idempotency_key(task.run, task.call, task.body),
        "lease_ms": LEASE_MS,
        "labels": task.labels,
    }
