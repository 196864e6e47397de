"""Whose work a task does: what is shared by all (threads, connections, memory) is shared by customers in turn."""

from contextvars import ContextVar

_OWNER: ContextVar[str] = ContextVar("owner", default="")


def on_behalf_of(owner: str) -> None:
    """From here to the end of the task, work is this customer's. Without it, it is the deployment's own."""
    _OWNER.set(owner)


def owner() -> str:
    return _OWNER.get()
