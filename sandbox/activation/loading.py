"""What of a run is read before its script is executed again."""

from sandbox.activation.ports import OwnedRuns
from sandbox.activation.setup import pinned_tools
from sandbox.isolate.api import RunSetup, ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.journal.codec import decode_body
from sandbox.journal.entries import RunStarted
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import NamespaceId, RunId, Seq
from sandbox.store.interface import RunFacts, StoredEntry

PAGE = 2_000


async def read_journal(store: OwnedRuns, namespace: NamespaceId, run: RunId) -> list[StoredEntry]:
    """A whole journal; empty when there is no such run. Errors: ImpossibleEntry when it has gaps."""
    entries: list[StoredEntry] = []
    while True:
        page = await store.read_entries(namespace, run, after=Seq(len(entries) - 1), limit=PAGE)
        entries += page
        if len(page) < PAGE:
            break
    if entries and entries[-1].seq != len(entries) - 1:
        raise ImpossibleEntry(f"the journal of run {run} has gaps")
    return entries


def started_of(entries: list[StoredEntry]) -> RunStarted:
    """Errors: ImpossibleEntry."""
    body = decode_body(entries[0].type, entries[0].body)[0] if entries else None
    if not isinstance(body, RunStarted):
        raise ImpossibleEntry("the journal does not begin with run_started")
    return body


def run_setup(facts: RunFacts, started: RunStarted, *, alone: bool = False) -> RunSetup:
    """The isolate that a run's script is executed in."""
    return RunSetup(
        run=facts.run,
        namespace=facts.namespace_name,
        epoch=facts.epoch,
        compiled=Compiled.from_json(facts.compiled),
        tools=tuple(
            ToolName(tool.name, tool.policy.approval is not None)
            for tool in pinned_tools(facts.tools).values()
        ),
        cpu_ms_per_event=started.limits.cpu_ms_per_event,
        heap_bytes=started.limits.heap_bytes,
        tenant=facts.namespace,
        alone=alone,
    )
