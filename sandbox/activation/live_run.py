"""One run in the hands of its owner: loaded, replayed, activated, until it waits for something.

The journal is the only source of truth: whatever happens here in memory, dropping the object and loading
the run again leads to the same state. Live events and recorded ones enter the isolate through one call.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sandbox.activation.budget import Budget
from sandbox.activation.drafts import Emission, PinnedTool, emission_of
from sandbox.activation.ending import Settlement, withdraw
from sandbox.activation.forking import make_fork
from sandbox.activation.inbox import Inbox
from sandbox.activation.loading import read_journal, run_setup, started_of
from sandbox.activation.parked import ParkedClaim, ParkedClaims
from sandbox.activation.ports import Blobs, Isolates, OwnedRuns
from sandbox.activation.report import Report
from sandbox.activation.setup import pinned_tools
from sandbox.activation.values import CHUNK_BYTES, deliverable, store_big_values, wire_bytes
from sandbox.isolate.api import Delivery, IsolateHandle, LimitExceeded
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import (
    DELIVERED_TYPES,
    CancelRequested,
    EntryType,
    Limits,
)
from sandbox.journal.errors import ImpossibleEntry
from sandbox.journal.ids import RunId, Seq, TimeMs
from sandbox.journal.replay import Cursor
from sandbox.store.interface import (
    BEFORE_ALL,
    ClaimedRun,
    CommandAppend,
    CommandDraft,
    EventAppend,
    Guard,
    Route,
    RunFacts,
    StoredEntry,
)

logger = logging.getLogger(__name__)

CHAIN_MAX = 256
"""Events delivered in one go; then other runs have their turn."""
SURVIVED_CPU_FACTOR = 4
"""An event that was survived before gets more time on replay: it must never become an abort."""


class LostRunError(Exception):
    """Another worker owns the run, or it has ended: forget it. Nothing of it was recorded here."""


class NotSurvivedAgainError(ImpossibleEntry):
    """An event within its limits when it was live exceeded one on replay. Never an abort: once more, alone."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What an append did, for those who should look: the calls that were offered, and whether the run ended."""

    run: "LiveRun"
    drafts: Sequence[CommandDraft]
    ended: bool
    leased: Sequence[tuple[ParkedClaim, CommandDraft]] = ()
    """Calls that were leased to waiting claims in the append itself, at `time`."""
    time: TimeMs = BEFORE_ALL


class LiveRun:
    def __init__(
        self,
        claimed: ClaimedRun,
        *,
        store: OwnedRuns,
        blobs: Blobs,
        isolates: Isolates,
        parked: ParkedClaims,
    ) -> None:
        self.namespace = claimed.namespace
        self.run: RunId = claimed.run
        self.epoch = claimed.epoch
        self.owner_epoch = claimed.owner_epoch
        self.commands = claimed.commands
        self.delivered: Seq = claimed.delivered
        self.inbox = Inbox(Seq(0))
        self.inbox.known_length(claimed.next_seq)
        self.facts: RunFacts | None = None
        self.ended = False
        self.alone = False
        """To be loaded into a child of its own: it died, or exceeded what it once had survived, among others."""
        self._store = store
        self._blobs = blobs
        self._isolates = isolates
        self._parked = parked
        self._isolate: IsolateHandle | None = None
        self._settlement: Settlement | None = None
        self._tools: dict[str, PinnedTool] = {}
        self._source: str | None = None
        self._stage = self._stage_before = "running"
        self._times: dict[Seq, TimeMs] = {}
        self._chain = CHAIN_MAX
        self._unreported = Report()
        self._within = Budget(Limits(), 0)
        self._cancel_seq: Seq | None = None
        self._first_cleanup_call: int | None = None
        self._in_flight = 0
        """Calls whose outcome was not delivered yet."""

    @property
    def loaded(self) -> bool:
        return self._isolate is not None or self._settlement is not None

    @property
    def evictable(self) -> bool:
        """False while only calls are awaited: nothing is kept in the sandbox then, and nobody else could end it."""
        return self._settlement is None

    @property
    def has_report(self) -> bool:
        return self._unreported.activations > 0

    async def advance(self) -> Committed | None:
        """Do the next piece of work: load, or deliver up to CHAIN_MAX events and append what they did.

        None: the run waits. Errors: LostRunError; Divergence and ImpossibleEntry (quarantine); Unavailable
        and ChildDied (drop and load again).
        """
        if not self.loaded and (made := await self._load()) is not None:
            return made
        events = self.inbox.take(self._chain)
        if not events and self.inbox.gap:
            after, believed = Seq(self.inbox.position - 1), self.inbox.length
            entries = await self._store.read_entries(self.namespace, self.run, after=after, limit=CHAIN_MAX)
            self.inbox.offer_all(entries)
            if not entries:
                self.inbox.nothing_there(believed)
            events = self.inbox.take(self._chain)
        if self._settlement is not None:
            return await self._settle() if events or not self._settlement.begun else None
        if not events:
            return None
        return await self._deliver(events)

    async def close(self) -> None:
        isolate, self._isolate = self._isolate, None
        if isolate is not None:
            await isolate.close()

    async def report(self) -> None:
        """Record what the last activations used when they emitted nothing; also that they were survived."""
        if self.has_report and not self.ended:
            await self._append([], ended=False)

    @property
    def _known_facts(self) -> RunFacts:
        if self.facts is None:
            raise AssertionError("a run is loaded before it is activated")
        return self.facts

    # -- Loading

    async def _load(self) -> Committed | None:
        """Read the run and execute its script up to where it was. A fork is made first: then Committed, not loaded."""
        self._stage = self._stage_before = "running"
        self._cancel_seq = self._first_cleanup_call = None
        self._in_flight = 0
        self.inbox = Inbox(Seq(self.delivered + 1))
        self.facts, entries = await asyncio.gather(
            self._store.load_facts(self.namespace, self.run),
            read_journal(self._store, self.namespace, self.run),
        )
        if self.facts is None:
            raise ImpossibleEntry(f"the script or the toolset of run {self.run} is gone")
        if self.facts.fork is not None:
            return await self._fork(self.facts, entries)
        self._tools = pinned_tools(self.facts.tools)
        started = started_of(entries)
        self.inbox.offer_all(entries)
        self._settlement = await Settlement.load(self._store, self.namespace, self.run, entries)
        if self._settlement is not None:
            return None
        self._within = Budget(started.limits, self.facts.cpu_us)
        self._isolate = await self._isolates.open(run_setup(self.facts, started, alone=self.alone))
        await self._replay(entries)
        return None

    async def _fork(self, facts: RunFacts, entries: list[StoredEntry]) -> Committed:
        """Record what the fork reuses; from then on it is loaded like any run."""
        forked = await make_fork(
            facts,
            entries,
            store=self._store,
            blobs=self._blobs,
            isolates=self._isolates,
            owner_epoch=self.owner_epoch,
            alone=self.alone,
        )
        if not forked.verdict.appended:
            raise LostRunError(f"run {self.run} has another owner or has ended")
        self.delivered, self.commands = forked.prefix.delivered, forked.prefix.commands
        self.inbox.known_length(forked.verdict.next_seq)
        self.ended = forked.prefix.ends is not None
        return Committed(self, forked.offered, ended=self.ended, time=forked.verdict.time)

    async def _replay(self, entries: list[StoredEntry]) -> None:
        recorded = [entry for entry in entries if entry.cause is not None]
        cursor = Cursor(recorded)
        chunk: list[StoredEntry] = []
        size = 0
        for entry in entries:
            if entry.type not in DELIVERED_TYPES or entry.seq > self.delivered:
                continue
            added = wire_bytes(entry)
            if chunk and size + added > CHUNK_BYTES:
                await self._replay_chunk(cursor, chunk)
                chunk, size = [], 0
            chunk.append(entry)
            size += added
        if chunk:
            await self._replay_chunk(cursor, chunk)
        cursor.finish()
        self.commands = len(recorded)
        await self._settle_calls()

    async def _replay_chunk(self, cursor: Cursor, chunk: list[StoredEntry]) -> None:
        try:
            delivery = await self._into_sandbox(chunk, cpu_factor=SURVIVED_CPU_FACTOR)
        except LimitExceeded as error:
            raise NotSurvivedAgainError(
                f"event {error.event_seq} was survived before, and exceeded the limit {error.limit} on replay: "
                f"{error.used} of {error.allowed}"
            ) from error
        for emission in self._emissions(delivery, chunk):
            draft = emission.draft
            cursor.next(draft.type, draft.cause, draft.body)

    # -- Activating

    async def _deliver(self, events: list[StoredEntry]) -> Committed:
        delivered = [event for event in events if event.type in DELIVERED_TYPES]
        try:
            self._within.check_cpu(events[0])
            delivery = await self._into_sandbox(delivered)
            self._within.cpu_us += delivery.cpu_us
            if any(emitted["type"] == "fail_run" for emitted in delivery.commands):
                self._source = await self._store.get_script(self.namespace, self._known_facts.script)
            emissions = self._emissions(delivery, delivered)
            drafts = [emission.draft for emission in emissions]
            self._within.check_history(self.inbox.length, drafts, events[-1])
        except LimitExceeded as error:
            return await self._exceeded(error, len(delivered))
        await store_big_values(emissions, self.namespace, self._blobs)
        self.delivered = events[-1].seq
        self._chain = min(self._chain * 2, CHAIN_MAX)
        self._unreported.add(delivery.cpu_us, len(delivered), delivery.waits_done)
        committed = Committed(self, (), ended=False)
        if emissions:
            committed = await self._append(emissions, ended=delivery.stage == "ended")
        await self._settle_calls()
        return committed

    async def _into_sandbox(self, events: Sequence[StoredEntry], *, cpu_factor: int = 1) -> Delivery:
        if self._isolate is None:
            raise AssertionError("only a loaded run is activated")
        wires = [await deliverable(event, self.namespace, self._blobs) for event in events]
        for event in events:
            if event.type == EntryType.CANCEL_REQUESTED:
                self._cancel_seq = event.seq
            self._in_flight -= event.type == EntryType.TOOL_CALL_COMPLETED
        delivery = await self._isolate.deliver(wires, cpu_factor=cpu_factor)
        self._stage_before, self._stage = self._stage, delivery.stage
        return delivery

    def _emissions(self, delivery: Delivery, events: Sequence[StoredEntry]) -> list[Emission]:
        # A failed run ends only when its calls have: the cause of fail_run may be of an earlier delivery.
        if self._stage_before == "running":
            self._times.clear()
        self._times.update((event.seq, event.time) for event in events)
        times = self._times
        emissions = []
        for emitted in delivery.commands:
            cause = emitted["cause"]
            if cause not in times:
                raise ImpossibleEntry(f"a command has the cause {cause!r}, which was not delivered")
            emissions.append(emission_of(emitted, time=times[cause], tools=self._tools, source=self._source))
            draft = emissions[-1].draft
            self._in_flight += draft.type == EntryType.SCHEDULE_TOOL_CALL
            if draft.type == EntryType.SCHEDULE_TOOL_CALL and draft.cause == self._cancel_seq:
                self._first_cleanup_call = min(draft.n, self._first_cleanup_call or draft.n)
        return emissions

    async def _append(self, emissions: Sequence[Emission], *, ended: bool) -> Committed:
        facts, report = self._known_facts, self._unreported
        self._unreported = Report()
        leased: list[tuple[ParkedClaim, CommandDraft]] = []
        drafts = [self._with_lease(emission.draft, leased) for emission in emissions]
        verdict = await self._store.append_commands(
            CommandAppend(
                namespace=self.namespace,
                run=self.run,
                worker=self._store.worker,
                owner_epoch=self.owner_epoch,
                commands_before=self.commands,
                delivered=self.delivered,
                cpu_us=report.cpu_us,
                activations=report.activations,
                organization=facts.organization,
                toolset=facts.toolset,
                commands=drafts,
                waits_done=report.waits_done,
                progress=next((e.progress for e in reversed(emissions) if e.progress is not None), None),
            )
        )
        if not verdict.appended:
            raise LostRunError(f"run {self.run} has another owner or has ended")
        self.commands += len(emissions)
        self.inbox.own(verdict.first_seq, len(emissions))
        self.inbox.known_length(verdict.next_seq)
        self.ended = ended
        return Committed(self, drafts, ended=ended, leased=leased, time=verdict.time)

    def _with_lease(
        self, draft: CommandDraft, leased: list[tuple[ParkedClaim, CommandDraft]]
    ) -> CommandDraft:
        """Lease a new call to a claim that waits for one: no commit of its own, no further round trip."""
        if draft.type != EntryType.SCHEDULE_TOOL_CALL or draft.route is not Route.HOST or draft.gated:
            return draft
        if draft.pace is not None:
            return draft  # who claims it counts
        if self._in_flight > self._within.limits.calls_in_flight:
            return draft  # it may have to be kept back
        claim = self._parked.lease(self._known_facts, draft.name or "")
        if claim is None:
            return draft
        draft = replace(draft, claim_id=claim.id)
        leased.append((claim, draft))
        return draft

    # -- Endings

    async def _settle_calls(self) -> None:
        """At a stage that only waits for calls: withdraw those that have not begun, tell others to stop (a failed run: children)."""
        if self.ended:
            return
        if self._cancel_seq is not None:
            below = self._first_cleanup_call
            self.inbox.offer_all(
                await withdraw(self._store, self.namespace, self.run, below=below, deferred=True)
            )
            await self._store.stop_calls(self.namespace, self.run, below=below)
        elif self._stage == "failing":
            self.inbox.offer_all(
                await withdraw(self._store, self.namespace, self.run, below=None, deferred=False)
            )
            await self._store.stop_calls(self.namespace, self.run, below=None, only_children=True)

    async def _exceeded(self, error: LimitExceeded, events: int) -> Committed:
        await self.close()
        if events > 1:
            # What the earlier events of the chain did must be appended: load again and go one by one.
            self._chain = 1
            return Committed(self, (), ended=False)
        logger.warning(
            "run %s exceeded its limit %s: %s of %s", self.run, error.limit, error.used, error.allowed
        )
        self._unreported.add(error.cpu_us, 0, ())
        await self._append([], ended=False)
        if self._cancel_seq is None:
            body = encode_body(
                CancelRequested(
                    reason="limit",
                    limit=error.limit,
                    allowed=error.allowed,
                    used=error.used,
                    event=None if error.event_seq is None else Seq(error.event_seq),
                )
            )
            await self._store.append_event(
                EventAppend(self.namespace, self.run, EntryType.CANCEL_REQUESTED, body, Guard.CANCEL)
            )
        self._settlement = await Settlement.load(self._store, self.namespace, self.run)
        return await self._settle()

    async def _settle(self) -> Committed:
        if self._settlement is None:
            raise AssertionError("only a run whose script is over is settled")
        cancelled = await self._settlement.proceed()
        if cancelled is not None:
            await self._append([cancelled], ended=True)
        self.ended = self._settlement.ended
        return Committed(self, (), ended=self.ended)
