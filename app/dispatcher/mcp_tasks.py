"""Calls that a server runs as a task of the protocol (2025-11-25), for tools that it offers in no other way.

Such a call is answered at once with a task, which is asked after until it has ended, and then for its result. Once
there is a task the call has been taken: whatever is lost from then on, it is not made again.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import mcp_types as types
from pydantic import ValidationError

from app.dispatcher.listing import TASK
from app.dispatcher.mcp import ServerFailed, ServerRefused
from app.dispatcher.mcp_http import HttpFailure, Trouble

POLL_S, POLL_MIN_S, POLL_MAX_S = 1.0, 0.05, 5.0
"""Between two questions, and the limits of what a server may wish."""
CANCEL_S = 5.0
KEPT_MS = 60_000
"""A server is asked to keep a task so much longer than we wait for it."""

Answer = TypeVar("Answer", bound=types.Result)
Request = Callable[[types.Request[Any, Any], type[Any], float], Awaitable[Any]]


def as_task(request: types.CallToolRequest, timeout_s: float) -> types.CallToolRequest:
    """The same call, to be run as a task."""
    task = types.TaskMetadata(ttl=int(timeout_s * 1000) + KEPT_MS)
    return types.CallToolRequest(params=request.params.model_copy(update={"task": task}))


async def result_of(
    first: types.CallToolResult, request: Request, *, ends_at_s: float
) -> types.CallToolResult:
    """The result of the call that `first` answers: itself, unless it says that there is a task.

    Errors: ServerFailed, TimeoutError; pydantic.ValidationError.
    """
    told = (first.meta or {}).get(TASK)
    if told is None:
        return first
    task = types.Task.model_validate(told)
    try:
        return await _followed(task, request, ends_at_s)
    except ServerRefused as error:
        raise _lost(str(error)) from None
    except ServerFailed as error:
        if error.failure.stale_session or error.failure.not_understood:
            raise _lost(error.failure.detail) from None
        raise
    except (TimeoutError, asyncio.CancelledError):
        cancel = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=task.task_id))
        with contextlib.suppress(ServerFailed, ServerRefused, TimeoutError, ValidationError):
            await request(cancel, types.CancelTaskResult, CANCEL_S)
        raise


async def _followed(task: types.Task, request: Request, ends_at_s: float) -> types.CallToolResult:
    while task.status == "working":
        wanted_s = POLL_S if task.poll_interval is None else task.poll_interval / 1000
        await asyncio.sleep(min(max(wanted_s, POLL_MIN_S), POLL_MAX_S))
        look = types.GetTaskRequest(params=types.GetTaskRequestParams(task_id=task.task_id))
        task = await request(look, types.GetTaskResult, _left_s(ends_at_s))
    if task.status == "input_required":
        raise ServerRefused(0, "the task asks for input, which a script does not give", None)
    if task.status == "cancelled":
        return _failed(task.status_message or "the server has cancelled the task")
    fetch = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task.task_id))
    try:
        result: types.CallToolResult = await request(fetch, types.CallToolResult, _left_s(ends_at_s))
    except ServerRefused as error:
        if task.status != "failed":
            raise
        return _failed(task.status_message or error.message)
    return result


def _left_s(ends_at_s: float) -> float:
    return max(0.0, ends_at_s - time.monotonic())


def _failed(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)], is_error=True)


def _lost(said: str) -> ServerFailed:
    return ServerFailed(
        HttpFailure(Trouble.BROKEN, f"the task that the server runs for the call is lost: {said}")
    )
