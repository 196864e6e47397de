"""What the client library would refuse of a server's answers is put aside before it reads them.

Lists of tools reach it without their schemas, so that one bad schema cannot spoil a list.

The library refuses a whole list when one tool's schema is not what the protocol's version says. The schemas are
for us to judge, tool by tool: on their way in they are put aside into the tool's `_meta`. Tasks (2025-11-25), which it
does not know as answers of calls, reach it as results without content, with the task in their `_meta`.
"""

import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

import mcp_types as types
from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from app.dispatcher.mcp_http import HttpFailure, Trouble
from app.toolsets.mcp_tools import UNUSABLE

LISTED = "codes.rewind/listed-schemas"
TASK = "codes.rewind/task"
PARTS_MAX = 10_000
"""Of a result's content. The library judges each part by itself, on the event loop: 10,000 take a tenth of a second."""
_TOO_MANY = HttpFailure(Trouble.TOO_LARGE, f"the result has more than {PARTS_MAX:,} parts of content")
_FIELDS = ("inputSchema", "outputSchema")
_ACCEPTED = {"type": "object"}
NAMELESS = ""
"""Of an entry of a list that is no tool, or has no name; the list of what is left out says so."""


@contextlib.asynccontextmanager
async def schemas_aside(
    transport: AbstractAsyncContextManager[TransportStreams],
) -> AsyncIterator[TransportStreams]:
    """The transport, whose lists of tools have their schemas put aside."""
    async with transport as (read, write):
        yield _Reading(read), write


def restored(tool: types.Tool, *, modern: bool) -> types.Tool:
    """The tool with the schemas that its server listed, whatever they are.

    `modern`: of a version whose clients must not use a tool that wants its arguments in headers in a wrong way.
    """
    meta: Any = tool.meta or {}
    listed = meta.get(LISTED, {})
    schema = listed.get("inputSchema")
    wrong = find_invalid_x_mcp_header(schema) if modern else None
    return tool.model_copy(
        update={
            "input_schema": schema,
            "output_schema": listed.get("outputSchema"),
            "meta": None if wrong is None else {UNUSABLE: f"inputSchema: {wrong}"},
        }
    )


def _put_aside(result: dict[str, Any]) -> None:
    listed = result.get("tools")
    if not isinstance(listed, list):
        return
    named = [isinstance(tool, dict) and isinstance(tool.get("name"), str) for tool in listed]
    if not any(named):
        return  # no list of tools
    result["tools"] = [
        _readable(tool) if fine else {"name": NAMELESS, "inputSchema": _ACCEPTED}
        for tool, fine in zip(listed, named, strict=True)
    ]


def _readable(tool: dict[str, Any]) -> dict[str, Any]:
    """The tool without its schemas, and without what the library cannot read of the rest."""
    meta = tool.get("_meta")
    kept = {word: value for word, value in tool.items() if word not in _FIELDS}
    kept["_meta"] = {
        **(meta if isinstance(meta, dict) else {}),
        LISTED: {field: tool[field] for field in _FIELDS if field in tool},
    }
    kept["inputSchema"] = _ACCEPTED
    try:
        types.Tool.model_validate(kept)
    except ValidationError as error:
        for wrong in error.errors(include_url=False, include_context=False, include_input=False):
            kept.pop(str(wrong["loc"][0]), None)
    return kept


class _Reading:
    def __init__(self, read: ReadStream[SessionMessage | Exception]) -> None:
        self._read = read

    @property
    def last_context(self) -> Any:
        """What the library asks of its own streams: the context of whoever sent the last message."""
        return getattr(self._read, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return _looked_at(await self._read.receive())

    async def aclose(self) -> None:
        await self._read.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _looked_at(await self._read.__anext__())

    async def __aenter__(self) -> Self:
        await self._read.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._read.__aexit__(exc_type, exc_val, exc_tb)


def _parts(content: Any) -> int:
    return len(content) if isinstance(content, list) else 0


def _looked_at(item: SessionMessage | Exception) -> SessionMessage | Exception:
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
        result = item.message.result
        if _parts(result.get("content")) > PARTS_MAX:
            error = types.ErrorData.model_validate(_TOO_MANY.to_error())
            item.message = types.JSONRPCError(jsonrpc="2.0", id=item.message.id, error=error)
            return item
        _put_aside(result)
        if isinstance(result.get("task"), dict) and "content" not in result:
            item.message.result = {"content": [], "_meta": {TASK: result["task"]}}
    return item
