"""Rewind for Python: start durable runs, and serve the tools that their scripts call.

client = AsyncRewind(namespace="alice")
run = await client.runs.start(script=source, toolset="support", input={...}, wait="30s")
"""

from rewind._client import AsyncRewind, BlockingWorker, Rewind
from rewind._context import CancelSignal, Deferred, ToolContext
from rewind._errors import (
    ApiError,
    BadRequest,
    ConfigurationError,
    Conflict,
    ConnectionFailed,
    NotFound,
    PermissionDenied,
    Refused,
    RequestTimeout,
    RewindError,
    RunAborted,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunQuarantined,
    ServerError,
    TooLarge,
    ToolError,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from rewind._tools import Tool, tool
from rewind._types import Entry, Namespace, Page, Run, Secret, SignalReceipt, Task, Token, Toolset
from rewind.worker import Worker

__all__ = [
    "ApiError",
    "AsyncRewind",
    "BadRequest",
    "BlockingWorker",
    "CancelSignal",
    "ConfigurationError",
    "Conflict",
    "ConnectionFailed",
    "Deferred",
    "Entry",
    "Namespace",
    "NotFound",
    "Page",
    "PermissionDenied",
    "Refused",
    "RequestTimeout",
    "Rewind",
    "RewindError",
    "Run",
    "RunAborted",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunQuarantined",
    "Secret",
    "ServerError",
    "SignalReceipt",
    "Task",
    "Token",
    "TooLarge",
    "TooManyRequests",
    "Tool",
    "ToolContext",
    "ToolError",
    "Toolset",
    "Unauthenticated",
    "Unavailable",
    "UnsupportedMediaType",
    "Worker",
    "tool",
]
