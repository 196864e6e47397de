"""A script in an isolate without owner and store: what it does is returned, and nothing is appended.

Events enter the isolate, and what the script did becomes drafts, by the same functions as in a live run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sandbox.activation.drafts import Emission, PinnedTool, emission_of
from sandbox.activation.ports import Blobs, Isolates
from sandbox.activation.values import deliverable
from sandbox.isolate.api import IsolateHandle, RunSetup, ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.journal.entries import Limits
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import Epoch, NamespaceId, RunId, Seq, TimeMs
from sandbox.store.interface import StoredEntry


@dataclass(frozen=True, slots=True)
class Play:
    """A script and what it can see of its run beside the journal. `source` is for the code frame of a failure."""

    run: RunId
    namespace: NamespaceId
    namespace_name: str
    epoch: Epoch
    compiled: Compiled
    tools: Mapping[str, PinnedTool]
    limits: Limits
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Reaction:
    """What one or more events made the script do."""

    emissions: Sequence[Emission]
    stage: str
    cpu_us: int


class Reenacted:
    def __init__(self, play: Play, isolate: IsolateHandle, blobs: Blobs) -> None:
        self._play = play
        self._isolate = isolate
        self._blobs = blobs
        self._times: dict[Seq, TimeMs] = {}

    @classmethod
    async def open(cls, play: Play, isolates: Isolates, blobs: Blobs) -> Self:
        """Errors: SandboxFault, ChildDied."""
        setup = RunSetup(
            run=play.run,
            namespace=play.namespace_name,
            epoch=play.epoch,
            compiled=play.compiled,
            tools=tuple(ToolName(t.name, t.policy.approval is not None) for t in play.tools.values()),
            cpu_ms_per_event=play.limits.cpu_ms_per_event,
            heap_bytes=play.limits.heap_bytes,
            tenant=play.namespace,
        )
        return cls(play, await isolates.open(setup), blobs)

    async def deliver(self, events: Sequence[StoredEntry], *, cpu_factor: int = 1) -> Reaction:
        """Errors: LimitExceeded, ChildDied, SandboxFault: the isolate is gone; ImpossibleEntry; Unavailable."""
        self._times.update((event.seq, event.time) for event in events)
        wires = [await deliverable(event, self._play.namespace, self._blobs) for event in events]
        delivery = await self._isolate.deliver(wires, cpu_factor=cpu_factor)
        emissions = []
        for emitted in delivery.commands:
            time = self._times.get(emitted["cause"])
            if time is None:
                raise ImpossibleEntry(
                    f"a command has the cause {emitted['cause']!r}, which was not delivered"
                )
            emissions.append(
                emission_of(emitted, time=time, tools=self._play.tools, source=self._play.source)
            )
        return Reaction(emissions, delivery.stage, delivery.cpu_us)

    async def close(self) -> None:
        await self._isolate.close()
