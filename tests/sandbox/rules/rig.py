"""One run under the whole engine, in virtual time: a real sandbox, the worker's activation, the scheduler, and the
store's double. Nothing happens by itself: a test says what the world does next.

Whatever a test does, its journal folds, and the script executed again does what it says (`check`).
"""

import secrets
from dataclasses import dataclass, field
from typing import Any

from app.scheduler.loop import fire_due
from app.tasks.settling import completed
from sandbox.activation.live_run import LiveRun
from sandbox.activation.parked import ParkedClaims
from sandbox.activation.reenacted import Play
from sandbox.activation.setup import pinned_tools
from sandbox.activation.verify import verify
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool
from sandbox.journal import entries as e
from sandbox.journal.canonical import parse_json, value_of
from sandbox.journal.codec import encode_body
from sandbox.journal.entries import Actor, Entry, EntryType, Limits, RunStarted
from sandbox.journal.ids import Digest, Epoch, NamespaceId, OrganizationId, RunId, Sha256, TimeMs
from sandbox.journal.state import fold
from sandbox.store.interface import (
    LEASE_MS,
    EventAppend,
    EventVerdict,
    Guard,
    PendingKind,
    RunFacts,
    StartRun,
    Task,
    TaskFilter,
)
from sandbox.store.memory import Journals, MemoryStore, decoded
from sandbox.store.memory_runs import MemoryRun
from sandbox.store.postgres.tasks import key_of

ORGANIZATION, NAMESPACE, EPOCH = OrganizationId("o"), NamespaceId("n"), Epoch(1)
START_MS = TimeMs(1_768_467_600_000)
SCRIPT = Digest("sha256:" + "5" * 64)
TOOLS = (
    {"name": "g.echo", "kind": "host"},
    {"name": "g.again", "kind": "host", "idempotent": True},
    {"name": "g.gated", "kind": "host", "approval": True},
    {"name": "g.soon", "kind": "host", "approval": {"expires_ms": 15_000}},
    {"name": "mcp.call", "kind": "mcp"},
)
HEAD = (
    'import { sleep, waitForSignal, retry, progress, CancelledError } from "rewind";\n'
    'import { g, mcp } from "rewind:tools"; void [sleep, waitForSignal, retry, progress, CancelledError, g, mcp];\n'
)
DAY_MS = 86_400_000
ACTIVATIONS_MAX = 2_000


class Values:
    """The object store."""

    def __init__(self) -> None:
        self._values: dict[tuple[NamespaceId, Sha256], bytes] = {}

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        return self._values[namespace, sha256]

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None:
        self._values[namespace, sha256] = data


@dataclass
class Rig:
    """`warm` false: the isolate is dropped after every activation, and the script executed again from its journal."""

    pool: ChildPool
    warm: bool
    journals: Journals = field(default_factory=lambda: Journals(START_MS))
    run: RunId = field(default_factory=lambda: RunId(secrets.token_hex(8)))

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.journals)
        self.values = Values()
        self._live: LiveRun | None = None
        self._claims = 0

    # -- The run

    async def start(
        self,
        body: str,
        *,
        limits: Limits | None = None,
        ttl_ms: int = 30 * DAY_MS,
        held_ms: int = 0,
        whole: bool = False,
    ) -> None:
        """Start a run whose main has this body (`whole`: with this source), and let it go as far as it gets."""
        source = body if whole else f"{HEAD}export default async function main() {{\n{body}\n}}"
        compiled = await self.pool.strip(source, EPOCH)
        assert isinstance(compiled, Compiled), compiled
        facts = RunFacts(
            NAMESPACE, NAMESPACE, ORGANIZATION, self.run, EPOCH, SCRIPT, compiled.to_json(), "t", TOOLS, {}
        )
        self.journals.facts[NAMESPACE, self.run] = facts
        self.journals.scripts[NAMESPACE, SCRIPT] = source
        time = TimeMs(self.journals.time + held_ms)
        started = RunStarted(
            input=value_of(None),
            script=SCRIPT,
            toolset=None,
            seed="00" * 16,
            epoch=EPOCH,
            deadline=TimeMs(time + ttl_ms),
            labels={},
            limits=limits or Limits(),
            started_by=Actor("key", "k"),
        )
        await self.store.register([EPOCH])
        await self.store.start_run(
            StartRun(
                namespace=NAMESPACE,
                organization=ORGANIZATION,
                run=self.run,
                body=encode_body(started),
                epoch=EPOCH,
                time=time,
                ttl_ms=ttl_ms,
                script=SCRIPT,
                toolset="t",
                toolset_digest=SCRIPT,
                workflow=None,
                labels={},
                created_by=("key", "k"),
                held=held_ms > 0,
            )
        )
        await self.go()

    @property
    def row(self) -> MemoryRun:
        return self.journals.runs[NAMESPACE, self.run]

    @property
    def status(self) -> str:
        return self.row.status.name.lower()

    @property
    def entries(self) -> list[Entry]:
        return [decoded(entry) for entry in self.row.entries]

    @property
    def told(self) -> list[str]:
        """The journal in short: type and number of each entry, and why it is there."""
        return [_short(entry.body) for entry in self.entries]

    def bodies(self, type_: type[Any]) -> list[Any]:
        return [entry.body for entry in self.entries if isinstance(entry.body, type_)]

    @property
    def logs(self) -> list[Any]:
        """The first value of each line."""
        return [log.values[0] for log in self.bodies(e.Log)]

    @property
    def output(self) -> Any:
        end = self.entries[-1].body
        assert isinstance(end, e.CompleteRun), end
        return parse_json(end.output.text or b"null")

    @property
    def pending(self) -> list[tuple[str, int]]:
        return sorted((kind.name.lower(), n) for kind, n in self.row.pending if kind != PendingKind.DEADLINE)

    async def go(self) -> None:
        """The worker does all that there is to do."""
        if self._live is None:
            claimed = await self.store.claim_runs(self.store.worker, [EPOCH], 1)
            if not claimed:
                return
            self._live = LiveRun(
                claimed[0], store=self.store, blobs=self.values, isolates=self.pool, parked=ParkedClaims()
            )
        live = self._live
        live.inbox.known_length(self.row.next_seq)
        for _ in range(ACTIVATIONS_MAX):
            if live.ended or await live.advance() is None:
                break
        else:
            raise AssertionError("the run does not come to rest")
        if not live.ended:
            await live.report()
            if self.warm or not live.evictable:
                return
        await self.put_down()

    async def put_down(self) -> None:
        """The worker dies: nothing is in memory any more."""
        live, self._live = self._live, None
        if live is not None:
            await live.close()
            await self.store.release_runs(self.store.worker, [(NAMESPACE, self.run)])

    # -- The world

    async def advance(self, ms: int) -> None:
        """Let time pass; what is due happens at its time, one moment after the other."""
        ends = TimeMs(self.journals.time + ms)
        while True:
            _, due = await self.store.next_due()
            self.journals.time = min(ends, max(self.journals.time, due or ends))
            await self.fire()
            if self.journals.time == ends:
                return

    async def fire(self) -> None:
        """The scheduler looks, then the worker."""
        await fire_due(self.store)
        await self.go()

    async def claim(self, limit: int = 10) -> list[Task]:
        """A worker of host tools begins what is offered."""
        self._claims += 1
        return await self.store.claim_tasks(TaskFilter(ORGANIZATION), f"c{self._claims}", limit, LEASE_MS)

    async def heartbeat(self, *tasks: Task) -> list[bool]:
        """Whether each is told to stop."""
        found = await self.store.heartbeat_tasks([key_of(task) for task in tasks], LEASE_MS)
        assert all(until is not None for until, _ in found)
        return [stop for _, stop in found]

    async def release(self, task: Task) -> None:
        """A worker gives back what it has not started."""
        assert await self.store.release_tasks([key_of(task)], [None]) == [True]

    async def complete(
        self, task: Task, result: Any = None, *, error: e.ToolFailure | None = None, go: bool = True
    ) -> EventVerdict:
        body = completed(task.call, task.attempt, task.begun_at, error or value_of(result))
        return await self.event(body, Guard.CALL, go=go, n=task.call, attempt=task.attempt)

    async def answer(self, *results: Any) -> None:
        """Begin and complete so many calls, in their order."""
        for task, result in zip(await self.claim(len(results)), results, strict=True):
            await self.complete(task, result)

    async def signal(self, name: str, payload: Any, id_: str, *, go: bool = True) -> EventVerdict:
        body = e.SignalReceived(name, value_of(payload), id_, None, Actor("key", "k"))
        return await self.event(body, Guard.SIGNAL, go=go, signal_id=id_)

    async def cancel(self, reason: Any = "user", *, go: bool = True) -> EventVerdict:
        return await self.event(e.CancelRequested(reason=reason), Guard.CANCEL, go=go)

    def due_timer(self, timer: int) -> EventAppend:
        """What the scheduler appends when this timer is due."""
        return EventAppend(
            NAMESPACE, self.run, EntryType.TIMER_FIRED, encode_body(e.TimerFired(timer)), Guard.TIMER, n=timer
        )

    async def event(self, body: Any, guard: Guard, *, go: bool = True, **more: Any) -> EventVerdict:
        type_ = EntryType[_SNAKE[type(body)]]
        verdict = await self.store.append_event(
            EventAppend(NAMESPACE, self.run, type_, encode_body(body), guard, **more)
        )
        if go:
            await self.go()
        return verdict

    # -- After each test

    async def check(self) -> None:
        await self.put_down()
        fold(self.entries)
        facts = self.journals.facts[NAMESPACE, self.run]
        started = self.entries[0].body
        assert isinstance(started, RunStarted)
        play = Play(
            run=self.run,
            namespace=NAMESPACE,
            namespace_name=NAMESPACE,
            epoch=EPOCH,
            compiled=Compiled.from_json(facts.compiled),
            tools=pinned_tools(TOOLS),
            limits=started.limits,
            source=self.journals.scripts[NAMESPACE, SCRIPT],
        )
        verified = await verify(play, self.row.entries, self.pool, self.values)
        assert verified.divergence is None, verified.divergence


_SNAKE = {
    e.ToolCallCompleted: "TOOL_CALL_COMPLETED",
    e.SignalReceived: "SIGNAL_RECEIVED",
    e.CancelRequested: "CANCEL_REQUESTED",
}


def _short(body: Any) -> str:
    match body:
        case e.ScheduleToolCall():
            return f"call {body.call}"
        case e.ToolCallCancelled():
            return f"abort {body.call}"
        case e.ToolCallCompleted():
            return f"outcome {body.call}" + ("" if body.error is None else f" {body.error.name}")
        case e.StartTimer():
            return f"timer {body.timer} {body.why}"
        case e.TimerFired():
            return f"fired {body.timer}"
        case e.TimerCleared():
            return f"cleared {body.timer}"
        case e.SignalAwaited():
            return f"wait {body.wait} {body.name}"
        case e.SignalWaitCleared():
            return f"wait cleared {body.wait}"
        case e.SignalReceived():
            return f"signal {body.id}"
        case e.CancelRequested():
            return f"cancel {body.reason}"
        case e.Log():
            return f"log {body.values[0]}"
        case e.FailRun():
            return f"failed {body.error.name}"
        case e.CancelRun():
            return f"cancelled {body.reason}"
        case e.RunAborted():
            return f"aborted {body.limit}"
        case e.CompleteRun():
            return "completed"
        case _:
            return "started"
