"""Leases of calls: random claims, heartbeats, deferrals, releases and expiries, answered alike by both stores."""

from dataclasses import replace
from random import Random
from uuid import UUID

from sandbox.journal.entries import CancelRequested
from sandbox.store.interface import PendingKind, Route, TaskFilter
from sandbox.store.memory import MemoryStore
from sandbox.store.postgres.owner import PostgresOwner
from sandbox.store.postgres.tasks import TaskKey, key_of
from tests.fixtures.entries import call, failure
from tests.fixtures.stores import ORGANIZATION, Bench, Owned, draft, open_bench

LEASE_MS = 30_000
WANTED = TaskFilter(ORGANIZATION)
STILL = """create or replace function now_ms() returns bigint language sql stable as
  'select 1700000000000 + offset_ms from clock'"""
"""Time moves only when the test says so, as the double's does."""
TIMEOUTS = (None, None, 5_000, 100_000)


class Play:
    """One run with calls of every kind; what was asked and answered, as offsets of the start."""

    def __init__(self, bench: Bench, owned: Owned, start_ms: int, random: Random) -> None:
        self.bench, self.owned, self.start_ms, self.random = bench, owned, start_ms, random
        self.store: MemoryStore | PostgresOwner = owned.store
        self.calls = 0
        self.keys: list[TaskKey] = []
        self.settled = 0
        self.trace: list[tuple[str, object]] = []

    async def step(self) -> None:
        actions = [self.make, self.make, self.claim, self.claim, self.heartbeat, self.release, self.defer]
        actions += [self.dispatch, self.give_back, self.expire, self.due, self.advance, self.stop]
        action = self.random.choice(actions)
        await action()
        if self.random.random() < 0.03:
            await self.bench.event(self.owned.claimed.run, CancelRequested("user"))

    async def make(self) -> None:
        entries = await self.bench.entries(self.owned.claimed.run)
        event = next(entry for entry in reversed(entries) if entry.cause is None)
        self.calls += 1
        claim = str(UUID(int=self.random.getrandbits(128))) if self.random.random() < 0.2 else None
        effects = {
            "route": self.random.choice((Route.HOST, Route.HOST, Route.DISPATCHER)),
            "idempotent": self.random.random() < 0.5,
            "timeout_ms": self.random.choice(TIMEOUTS),
        }
        command = draft(call(self.calls, "s.t", {"n": self.calls}), event.seq, event.time, **effects)
        if command.route is Route.HOST:
            command = replace(command, claim_id=claim)
        verdict = await self.owned.append(command, delivered=event.seq, toolset="tools")
        self.note("make", verdict.appended)

    async def claim(self) -> None:
        claim = str(UUID(int=self.random.randrange(4) + 1))
        tasks = await self.store.claim_tasks(WANTED, claim, self.random.choice((1, 3)), LEASE_MS)
        self.keys += [key_of(task) for task in tasks]
        self.note(
            "claim",
            [
                (task.call, task.attempt, task.releases, task.stopping, self.at(task.begun_at),
                 self.at(task.lease_until))
                for task in tasks
            ],
        )  # fmt: skip

    def some(self) -> list[TaskKey]:
        return list(dict.fromkeys(self.random.choices(self.keys, k=2))) if self.keys else []

    async def heartbeat(self) -> None:
        answers = await self.store.heartbeat_tasks(self.some(), LEASE_MS)
        self.note("heartbeat", [(self.at(until), stopping) for until, stopping in answers])

    async def release(self) -> None:
        keys = self.some()
        after = self.random.choice((None, 1_000))
        self.note("release", await self.store.release_tasks(keys, [after] * len(keys)))

    async def defer(self) -> None:
        keys = self.some()[:1]
        after = self.random.choice((None, 10_000))
        self.note("defer", await self.store.defer_tasks(keys, [after] * len(keys)))

    async def dispatch(self) -> None:
        claim = str(UUID(int=self.random.randrange(2) + 100))
        calls = await self.store.claim_calls(claim, 2, lease_ms=LEASE_MS, server_max=8, free={})
        held = await self.store.renew_calls(claim, LEASE_MS)
        told = await self.store.stopping_calls(claim)
        found = sorted((found.call, found.attempt, found.left_ms) for found in calls)
        self.note("dispatch", found)
        self.note("held", sorted((key[2], attempt) for key, attempt in held.items()))
        self.note("stopping", sorted(number for _, _, number in told))

    async def give_back(self) -> None:
        claim = str(UUID(int=self.random.randrange(2) + 100))
        held = await self.store.renew_calls(claim, LEASE_MS)
        await self.store.release_calls(claim, sorted(held)[:1])

    async def stop(self) -> None:
        if self.random.random() < 0.7:
            run = self.owned.claimed.run
            await self.store.stop_calls(self.bench.namespace, run, below=self.random.choice((None, 3)))

    async def expire(self) -> None:
        lost = await self.store.expire_leases(10)
        self.note("expire", sorted((row.n, row.attempt, self.at(row.begun_at)) for row in lost))

    async def due(self) -> None:
        rows = await self.store.read_due(100)
        found = [
            (row.kind, row.n, row.why, row.attempt, row.timeout_ms, self.at(row.due))
            for row in rows
            if row.kind is PendingKind.CALL
        ]
        now, at = await self.store.next_due()
        self.note("due", sorted(found, key=repr))
        self.note("something is due", at is not None and at <= now)

    async def advance(self) -> None:
        await self.bench.advance(self.random.choice((500, 6_000, 31_000)))

    def at(self, time: int | None) -> int | None:
        """Since the start."""
        return None if time is None else time - self.start_ms

    def note(self, what: str, answer: object) -> None:
        self.trace.append((what, answer))

    @property
    def calls_open(self) -> int:
        return self.calls - self.settled

    async def settle(self) -> None:
        self.settled += 1
        await self.bench.event(self.owned.claimed.run, failure(self.settled))


async def played(bench: Bench, seed: int) -> list[tuple[str, object]]:
    bench.namespace = await bench.new_namespace()
    run = await bench.start(toolset="tools", toolset_digest="sha256:" + "0" * 64)
    play = Play(bench, await bench.own(run), await bench.edge.now(), Random(seed))
    for _ in range(60):
        await play.step()
    while play.calls_open:  # nothing is left for the next run's claims
        await play.settle()
    return play.trace


async def test_both_stores_lease_alike(database_url: str) -> None:
    async with open_bench(None) as memory, open_bench(database_url) as postgres:
        await postgres.admin.execute(STILL)
        seen: set[str] = set()
        for seed in range(16):
            ours, real = await played(memory, seed), await played(postgres, seed)
            assert ours == real, f"seed {seed}"
            seen |= {what for what, answer in ours if answer}
        assert seen >= {"claim", "heartbeat", "release", "defer", "dispatch", "stopping", "expire", "due"}
