"""One claimed task being executed: from its arguments to the outcome that is reported."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import orjson

from rewind._context import ToolContext
from rewind._errors import ToolError
from rewind._outbox import Outcome, completed, deferred, failed
from rewind._tools import Tool, encode_json
from rewind._types import Task

logger = logging.getLogger("rewind.worker")
RESULT_BYTES_MAX = 16 * 1024 * 1024
MESSAGE_CHARS_MAX = 4_000


class Execution:
    """Runs the tool at once, in the background; `done` is called exactly once, unless it is abandoned."""

    __slots__ = ("_done", "_job", "_threads", "_tool", "ctx", "task")

    def __init__(
        self, task: Task, tool: Tool, threads: Executor, done: Callable[["Execution", Outcome | None], None]
    ) -> None:
        self.task = task
        self.ctx = ToolContext(task)
        self._tool = tool
        self._threads = threads
        self._done = done
        self._job = asyncio.create_task(self._run(), name=f"rewind-tool-{task.tool}")

    def abandon(self) -> None:
        """Stop without an outcome: the lease ends by itself and the server decides what that means."""
        self.ctx.signal.set("worker_stopped")
        self._job.cancel()

    async def _run(self) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._outcome()
        finally:
            self._done(self, outcome)

    async def _outcome(self) -> Outcome:
        token = self.task.token
        try:
            positional, keywords = self._tool.invocation(self.task.args, self.ctx)
            result = await self._call(positional, keywords)
            if self.ctx.deferred is not None:
                return deferred(token, self.ctx.deferred.expires)
            encoded = self._tool.encode_result(result)
        except asyncio.CancelledError:
            if self.ctx.signal.reason == "worker_stopped" or _being_cancelled():
                raise
            return failed(token, {"message": "the tool was cancelled", "code": "cancelled"})
        except ToolError as error:
            return failed(token, _tool_error(error))
        except (Exception, SystemExit) as error:
            logger.warning(
                "%s #%d of %s raised", self.task.tool, self.task.call, self.task.run, exc_info=error
            )
            return failed(token, _any_error(error))
        if len(encoded) > RESULT_BYTES_MAX:
            message = f"the result of {self.task.tool} has {len(encoded)} bytes; at most {RESULT_BYTES_MAX} are allowed"
            return failed(token, {"message": message, "code": "too_large"})
        return completed(token, encoded)

    async def _call(self, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        handler = self._tool.handler
        if self._tool.is_async:
            return await handler(*positional, **keywords)
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(
            self._threads, lambda: context.run(handler, *positional, **keywords)
        )
        return await result if inspect.isawaitable(result) else result


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _tool_error(error: ToolError) -> dict[str, object]:
    described: dict[str, object] = {"message": _clean(error.message)}
    if error.code is not None:
        described["code"] = _clean(error.code)
    if error.retryable is not None:
        described["retryable"] = error.retryable
    if error.data is not None:
        try:
            described["data"] = orjson.Fragment(encode_json(error.data))
        except (TypeError, ValueError):
            described["data"] = _clean(repr(error.data))
    return described


def _any_error(error: BaseException) -> dict[str, object]:
    """A tool's own exception: its words, and its class where it has none."""
    described: dict[str, object] = {"message": _clean(str(error) or type(error).__name__)}
    code = getattr(error, "code", None)
    if isinstance(code, str):
        described["code"] = code
    return described


def _clean(text: str) -> str:
    """Bounded, and without lone surrogates, which JSON in UTF-8 can't carry."""
    return text[:MESSAGE_CHARS_MAX].encode("utf-8", "replace").decode()
