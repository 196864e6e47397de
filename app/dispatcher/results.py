"""What the answer of an MCP server is to the script: a value, or a ToolError with a code. Pure."""

import re
from typing import TYPE_CHECKING, Any

from app.dispatcher.mcp import SAID_CHARS_MAX, ServerFailed, ServerRefused
from app.dispatcher.mcp_http import HttpFailure, Trouble
from app.tasks.settling import TOOL_FAILED
from app.toolsets.definition import Shape
from sandbox.journal.canonical import CanonicalError, parse_json
from sandbox.journal.entries import ToolFailure
from sandbox.journal.ids import Json

if TYPE_CHECKING:
    import mcp_types as types

INVALID_PARAMS = -32602
"""Code of JSON-RPC."""
_UNKNOWN_TOOL = re.compile(r"(?i)\bunknown tool\b|\btool\b.{0,200}\bnot found\b|\bno such tool\b")


class ToolFailed(Exception):
    """The call ends with this failure."""

    def __init__(self, failure: ToolFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failed(code: str, message: str, *, retryable: bool = False) -> ToolFailed:
    return ToolFailed(ToolFailure("ToolError", code, message[:SAID_CHARS_MAX], retryable=retryable))


def value_of_result(result: "types.CallToolResult", shape: Shape | None, *, structured: bool) -> Json:
    """The value of a tool's result; `structured`: the tool declares the shape of its result.

    Errors: ToolFailed for `isError`, and for a result that is not of the pinned shape.
    """
    if result.is_error:
        raise failed(TOOL_FAILED, _text(result.content) or "the tool failed and did not say why")
    if shape == "content":
        return _content(result)
    if shape == "text":
        return _text(result.content)
    if structured and "structured_content" in result.model_fields_set:
        content: Json = result.structured_content
        return content
    if structured:
        raise failed("invalid_result", "the tool declares an output schema and gave no structured content")
    if any(part.type != "text" for part in result.content) and shape is None:
        return _content(result)
    text = _text(result.content)
    if shape == "json":
        try:
            return parse_json(text)
        except CanonicalError as error:
            raise failed("invalid_result", f"the tool's text is no JSON: {error.message}") from None
    if text.startswith(("{", "[")):
        try:
            return parse_json(text)
        except CanonicalError:
            return text
    return text


def failure_of(error: ServerFailed | ServerRefused, *, idempotent: bool) -> ToolFailure:
    """The ToolError for a call that the server did not answer with a result."""
    if isinstance(error, ServerRefused):
        code = {INVALID_PARAMS: "invalid_arguments"}.get(error.code, TOOL_FAILED)
        if code == "invalid_arguments" and _UNKNOWN_TOOL.search(error.message):
            code = "tool_removed"
        return failed(code, error.message or f"the server refused with code {error.code}").failure
    code, retryable = _code(error.failure, idempotent=idempotent)
    return failed(code, error.failure.detail, retryable=retryable).failure


def _code(failure: HttpFailure, *, idempotent: bool) -> tuple[str, bool]:
    """(code, whether it may help to try again): again only what was not executed, or may be."""
    match failure.trouble:
        case Trouble.REFUSED:
            return "unreachable", False
        case Trouble.UNREACHABLE:
            return "unreachable", True
        case Trouble.BROKEN:
            return "unreachable", idempotent
        case Trouble.TOO_LARGE:
            return "too_large", False
        case Trouble.GARBAGE:
            return "invalid_result", False
        case Trouble.STATUS:
            if failure.status in {401, 403}:
                return "unauthorized", False
            if failure.status == 429:
                return "rate_limited", True
            if failure.status in {502, 503, 504} or failure.status < 400 or failure.stale_session:
                return "unreachable", idempotent
            return TOOL_FAILED, False


def _text(content: list[Any]) -> str:
    return "\n".join(part.text for part in content if part.type == "text")


def _content(result: "types.CallToolResult") -> Json:
    parts: Json = [part.model_dump(by_alias=True, mode="json", exclude_none=True) for part in result.content]
    return parts
