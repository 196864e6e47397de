"""A fork in the hands of its owner: what it reuses is computed, recorded in chunks, and then it is like any run.

After a crash it is computed again: the same parent, script and place give the same prefix, and what is recorded
of it is passed over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.activation.loading import read_journal, run_setup, started_of
from sandbox.activation.ports import Blobs, Isolates, OwnedRuns
from sandbox.activation.prefix import ForkTask, HistoryGone, Prefix, make_prefix
from sandbox.activation.setup import pinned_tools
from sandbox.activation.values import store_big_values
from sandbox.journal.codec import TYPE_NAMES
from sandbox.journal.entries import END_TYPES
from sandbox.journal.errors import Divergence
from sandbox.journal.fork import Matching
from sandbox.journal.ids import NamespaceId, Seq
from sandbox.store.forks import ForkAppend, ForkDone, ForkEntry
from sandbox.store.interface import (
    CommandDraft,
    CommandVerdict,
    ForkOrder,
    PendingKind,
    RunFacts,
    StoredEntry,
)

CHUNK_ENTRIES = 500
CHUNK_BYTES = 1024 * 1024
RESUMED_CPU_FACTOR = 4
"""An event whose commands are recorded was survived: it must not become an abort when the prefix is made again."""


@dataclass(frozen=True, slots=True)
class Forked:
    """The last chunk's verdict, and the calls that are offered from now on."""

    prefix: Prefix
    verdict: CommandVerdict
    offered: Sequence[CommandDraft]


async def matching_of(store: OwnedRuns, namespace: NamespaceId, order: ForkOrder) -> Matching:
    """Errors: HistoryGone when the parent's journal is not there any more."""
    parent = await read_journal(store, namespace, order.parent)
    if not parent or parent[-1].type not in END_TYPES:
        raise HistoryGone(f"the journal of the parent {order.parent} is not there any more")
    return Matching(order.parent, parent, order.at)


async def make_fork(
    facts: RunFacts,
    journal: list[StoredEntry],
    *,
    store: OwnedRuns,
    blobs: Blobs,
    isolates: Isolates,
    owner_epoch: int,
    alone: bool = False,
) -> Forked:
    """Record everything that the fork reuses, from where a former owner left off.

    `journal` is the fork's own. Errors: HistoryGone, Divergence; Unavailable and ChildDied (try again).
    verdict.appended false: another owner has the run.
    """
    assert facts.fork is not None  # nobody else is asked to
    started = started_of(journal)
    task = ForkTask(
        namespace=facts.namespace,
        setup=run_setup(facts, started, alone=alone),
        started=journal[0],
        limits=started.limits,
        tools=pinned_tools(facts.tools),
        matching=await matching_of(store, facts.namespace, facts.fork),
        cpu_factor=1 if len(journal) == 1 else RESUMED_CPU_FACTOR,
    )
    prefix = await make_prefix(
        task, isolates=isolates, blobs=blobs, source=lambda: store.get_script(facts.namespace, facts.script)
    )
    _check_recorded(journal, prefix)
    await store_big_values(prefix.big_values, facts.namespace, blobs)
    verdict = await _append(facts, prefix, Seq(len(journal)), store, owner_epoch)
    calls = [draft for (kind, _), (_, draft) in prefix.pending.items() if kind is PendingKind.CALL]
    return Forked(prefix, verdict, calls)


async def _append(
    facts: RunFacts, prefix: Prefix, first: Seq, store: OwnedRuns, owner_epoch: int
) -> CommandVerdict:
    done = ForkDone(
        report=prefix.report,
        delivered=prefix.delivered,
        last_event=prefix.last_event,
        commands=prefix.commands,
        calls=prefix.calls,
        cpu_us=prefix.cpu_us,
        activations=prefix.activations,
        organization=facts.organization,
        toolset=facts.toolset,
        pending=[row for row, _ in prefix.pending.values()],
        signals=prefix.signals,
        cancel_seq=prefix.cancel_seq,
        ends=prefix.ends,
        progress=prefix.progress,
    )
    while True:
        chunk = list(_chunk(prefix.entries[first - 1 :]))
        last = first + len(chunk) == prefix.next_seq
        verdict = await store.append_fork(
            ForkAppend(
                facts.namespace, facts.run, store.worker, owner_epoch, first, chunk, done if last else None
            )
        )
        if last or not verdict.appended:
            return verdict
        first = Seq(first + len(chunk))


def _chunk(entries: Sequence[ForkEntry]) -> Iterator[ForkEntry]:
    """Whole activations: a fork that is given up between two chunks matches a replay up to there."""
    size = 0
    for count, entry in enumerate(entries):
        if entry.cause is None and (count >= CHUNK_ENTRIES or size >= CHUNK_BYTES):
            return
        yield entry
        size += len(entry.body)


def _check_recorded(journal: Sequence[StoredEntry], prefix: Prefix) -> None:
    """What a former owner recorded must be what is made now. Errors: Divergence."""
    for recorded, entry in zip(journal[1:], prefix.entries, strict=False):
        if (recorded.type, recorded.cause, recorded.body) != (entry.type, entry.cause, entry.body):
            raise Divergence(recorded.seq, TYPE_NAMES[recorded.type], TYPE_NAMES[entry.type], "entry")
    if len(journal) > prefix.next_seq:
        raise Divergence(Seq(prefix.next_seq), TYPE_NAMES[journal[prefix.next_seq].type], None, "type")
