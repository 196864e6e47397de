"""What the answer to a question may use, and what a kind of question is."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sandbox.activation.ports import Blobs
from sandbox.compiler.check import Checker
from sandbox.compiler.toolset import ToolsetCache
from sandbox.isolate.pool import ChildPool
from sandbox.store.postgres.owner import PostgresOwner
from sandbox.store.postgres.requests import SandboxRequest


@dataclass(frozen=True, slots=True)
class Bench:
    """`store` reads the journals and scripts of any run; an answer appends nothing."""

    children: ChildPool
    checker: Checker
    toolsets: ToolsetCache
    store: PostgresOwner
    blobs: Blobs


Answer = Callable[[Bench, SandboxRequest], Awaitable[bytes]]
"""The bytes that the asker gets. Any exception is told to the asker as Unavailable: what the caller did wrong
belongs into the answer."""


@dataclass(frozen=True, slots=True)
class Kind:
    answer: Answer
    executes: bool = False
    """Whether it runs scripts: such answers leave one child to the runs."""
