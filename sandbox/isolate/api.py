"""What the sandbox offers its worker: isolates that take a script and deliver events, whatever engine runs them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sandbox.isolate.compiled import Compiled


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool as scripts call it (`group.name` or `name`); gated: its calls wait for an approval."""

    name: str
    gated: bool


@dataclass(frozen=True, slots=True)
class RunSetup:
    run: str
    namespace: str
    epoch: int
    compiled: Compiled
    tools: tuple[ToolName, ...]
    cpu_ms_per_event: int
    heap_bytes: int
    tenant: str = ""
    """Whose run it is (not by name: names repeat): tenants take turns in a child."""
    alone: bool = False
    """In a fresh child of its own: the run is under suspicion of killing the one it was in."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What delivered events did. `commands` in the order in which the script made them, values as canonical text.

    stage: running, returning, failing, cancelling or ended. waits_done: waits for signals that were satisfied.
    """

    commands: list[dict[str, Any]]
    waits_done: list[int]
    stage: str
    delivered: int
    cpu_us: int


@dataclass
class LimitExceeded(Exception):
    """The script's fault: it exceeded a limit while the event `event_seq` was delivered. The isolate is gone.

    allowed, used: ms for `cpu` and `cpu_total`, bytes for `heap`, entries for `history`.
    """

    limit: str
    allowed: int
    used: int
    event_seq: int | None
    cpu_us: int = 0
    """What the delivery had used by then."""

    def __str__(self) -> str:
        return f"limit {self.limit} exceeded: {self.used} of {self.allowed} at event {self.event_seq}"


class ChildDied(Exception):
    """The process that held the isolate is gone without an exceeded limit. Replay once more, alone."""

    code = "engine_crash"


class IsolateLost(ChildDied):
    """The isolate was gone before this request: dropped for room, or its process died of another run. Load again."""


class SandboxFault(Exception):
    """The engine or the prelude did what it never should. The platform's fault."""


class IsolateHandle(Protocol):
    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        """Deliver events in order, each the wire JSON of its entry; the first of all is run_started.

        Limits: each event may use cpu_factor × the run's CPU per event.
        Errors: LimitExceeded, ChildDied, IsolateLost, SandboxFault; after any of them the handle is dead.
        """
        ...

    async def close(self) -> None: ...
