"""Messages stand in a journal inline: at most 8 KiB of each, and what was cut says so."""

from dataclasses import replace

from sandbox.journal.entries import ToolFailure

MESSAGE_BYTES_MAX = 8 * 1024


def cut(message: str) -> str:
    """At most MESSAGE_BYTES_MAX bytes of a message."""
    data = message.encode()
    if len(data) <= MESSAGE_BYTES_MAX:
        return message
    return data[: MESSAGE_BYTES_MAX - 3].decode(errors="ignore") + "…"


def bounded(failure: ToolFailure) -> ToolFailure:
    """The failure with a message that a journal may hold."""
    message = cut(failure.message)
    return failure if message == failure.message else replace(failure, message=message, truncated=True)
