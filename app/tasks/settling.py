"""How a settled task ends its call: the completion that is recorded, and whether a repeat is the same."""

from app.body import VALUE_BYTES_MAX
from app.errors import from_canonical
from app.large import beside_loop
from sandbox.journal.canonical import CanonicalError, canonical_text
from sandbox.journal.entries import ToolCallCompleted, ToolFailure, Value
from sandbox.journal.ids import Json, TimeMs
from sandbox.journal.messages import bounded

TOOL_FAILED = "tool_failed"


async def checked_text(value: Json, path: str) -> bytes:
    """The canonical text of a result or of error data. ApiError with the path of what cannot be one."""
    try:
        return await beside_loop(canonical_text, value)
    except CanonicalError as error:
        raise from_canonical(error, within=path) from None


def too_large(size: int, what: str) -> ToolFailure:
    return ToolFailure(
        "ToolError", "too_large", f"the tool's {what} has {size:,} bytes; the limit is {VALUE_BYTES_MAX:,}"
    )


def invalid_result(problem: str) -> ToolFailure:
    return ToolFailure(
        "ToolError", "invalid_result", f"the result does not match the tool's output schema: {problem}"
    )


def invalid_arguments(problem: str) -> ToolFailure:
    return ToolFailure(
        "ToolError",
        "invalid_arguments",
        f"the arguments do not match the tool's input schema: {problem}",
    )


def completed(
    call: int, attempt: int, begun_at: TimeMs | None, outcome: Value | ToolFailure
) -> ToolCallCompleted:
    return ToolCallCompleted(
        call=call,
        result=None if isinstance(outcome, ToolFailure) else outcome,
        error=bounded(outcome) if isinstance(outcome, ToolFailure) else None,
        attempts=attempt,
        begun_at=begun_at,
    )


def same_outcome(recorded: ToolCallCompleted, ours: ToolCallCompleted) -> bool:
    """Whether a repeat says what was recorded: the same attempt with the same result or error."""
    if recorded.attempts != ours.attempts:
        return False
    if recorded.result is not None and ours.result is not None:
        return recorded.result.sha256 == ours.result.sha256
    return recorded.error is not None and ours.error is not None and _same(recorded.error, ours.error)


def _same(recorded: ToolFailure, ours: ToolFailure) -> bool:
    data = [None if failure.data is None else failure.data.sha256 for failure in (recorded, ours)]
    return data[0] == data[1] and (recorded.name, recorded.code, recorded.message, recorded.retryable) == (
        ours.name,
        ours.code,
        ours.message,
        ours.retryable,
    )
