"""A worker in this process, on a real database and with real, confined children."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest_asyncio

from sandbox.compiler.check import Checker
from sandbox.config import DataPlaneSettings, S3Location
from sandbox.isolate.api import IsolateHandle, RunSetup
from sandbox.isolate.compiled import Compiled, Diagnostic
from sandbox.isolate.pool import ChildPool
from sandbox.journal.canonical import value_of
from sandbox.journal.codec import TYPE_OF, decode_body, encode_body
from sandbox.journal.entries import (
    Actor,
    Event,
    Limits,
    Origin,
    Parent,
    RunStarted,
    SignalReceived,
    TimerFired,
    ToolCallCompleted,
)
from sandbox.journal.ids import Digest, Epoch, NamespaceId, OrganizationId, RunId, TimeMs
from sandbox.store.blobs import BlobStore
from sandbox.store.hints import HintBus
from sandbox.store.interface import EventAppend, EventVerdict, Guard, RunRecord, StartRun
from sandbox.store.postgres.edge import PostgresEdge
from sandbox.store.postgres.owner import PostgresOwner
from sandbox.worker.process import Worker
from tests.fixtures.keys import DATA_KEY
from tests.fixtures.turns import turn

EPOCH = Epoch(1)
TOOLSET = "tools"
DIGEST = Digest("sha256:" + "0" * 64)
NOWHERE = S3Location("values", "http://127.0.0.1:1", "key", "secret", "local")
TTL_MS = 86_400_000


@dataclass
class CountingPool:
    """The real pool, counting how often a run was loaded into a sandbox."""

    pool: ChildPool
    opened: list[str] = field(default_factory=list)

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        return self.pool.epochs

    async def open(self, setup: RunSetup) -> IsolateHandle:
        self.opened.append(setup.run)
        return await self.pool.open(setup)

    async def strip(self, source: str, epoch: int, *, tenant: str = "") -> Compiled | list[Diagnostic]:
        return await self.pool.strip(source, epoch, tenant=tenant)


@dataclass
class Bench:
    edge: PostgresEdge
    pool: CountingPool
    checker: Checker
    hints: Path
    url: str
    organization: OrganizationId
    namespace: NamespaceId
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def beside(self) -> "Bench":
        """The same worker and database for another namespace."""
        namespace = NamespaceId(str(uuid4()))
        async with self.edge.pool.acquire() as connection:
            await connection.execute(
                "insert into namespaces (id, organization_id, name, created_at) values ($1, $2, $3, 0)",
                namespace,
                self.organization,
                namespace,
            )
        return replace(self, namespace=namespace)

    async def start(
        self,
        source: str,
        given: object = None,
        tools: tuple[str, ...] = ("g.echo",),
        *,
        held_ms: int = 0,
        limits: Limits | None = None,
        epoch: Epoch = EPOCH,
        idempotent: bool = False,
        script: Digest | None = None,
    ) -> RunId:
        """Start a run of the source, or of a script that was compiled before."""
        script = script or await self.compile(source, epoch)
        definition = json.dumps({"tools": [{"name": name, "idempotent": idempotent} for name in tools]})
        async with self.edge.pool.acquire() as connection:
            await connection.execute(
                "insert into toolset_versions values ($1, $2, $3, $4, 0) on conflict do nothing",
                self.organization,
                TOOLSET,
                DIGEST,
                definition,
            )
        now = TimeMs(await self.edge.now() + held_ms)
        run = RunId(str(uuid4()))
        started = RunStarted(
            input=value_of(given),
            script=script,
            toolset=f"{TOOLSET}@{DIGEST}",
            seed=secrets.token_hex(16),
            epoch=epoch,
            deadline=TimeMs(now + TTL_MS),
            labels={},
            limits=limits or Limits(),
            started_by=Actor("key", "k"),
        )
        await self.edge.start_run(
            StartRun(
                namespace=self.namespace,
                organization=self.organization,
                run=run,
                body=encode_body(started),
                epoch=epoch,
                time=now,
                ttl_ms=TTL_MS,
                script=script,
                toolset=TOOLSET,
                toolset_digest=DIGEST,
                workflow=None,
                labels={},
                created_by=("key", "k"),
                held=held_ms > 0,
            )
        )
        return run

    async def fork(self, parent: RunId, source: str | None = None, *, at: int | None = None) -> RunId:
        """Fork an ended run, with another script if one is given."""
        record = await self.record(parent)
        [first] = await self.edge.read_entries(self.namespace, parent, limit=1)
        started, _ = decode_body(first.type, first.body)
        assert isinstance(started, RunStarted)
        script = record.script if source is None else await self.compile(source)
        now = await self.edge.now()
        run = RunId(str(uuid4()))
        origin = started.origin or Origin(parent, started.labels, started.deadline, None)
        forked = replace(
            started,
            script=script,
            deadline=TimeMs(now + TTL_MS),
            labels={"of": "fork"},
            parent=Parent(parent, "fork"),
            forked_at=now,
            origin=origin,
        )
        await self.edge.start_run(
            StartRun(
                namespace=self.namespace,
                organization=self.organization,
                run=run,
                body=encode_body(forked),
                epoch=EPOCH,
                time=first.time,
                ttl_ms=now + TTL_MS - first.time,
                script=script,
                toolset=record.toolset,
                toolset_digest=record.toolset_digest,
                workflow=None,
                labels=forked.labels,
                created_by=("key", "k"),
                parent={"run": parent, "kind": "fork"},
                fork={"forked_at": now} | ({} if at is None else {"at": at}),
            )
        )
        return run

    async def compile(self, source: str, epoch: Epoch = EPOCH) -> Digest:
        compiled = await self.pool.pool.strip(source, EPOCH)
        assert isinstance(compiled, Compiled), compiled
        script = Digest("sha256:" + secrets.token_hex(32))
        await self.edge.put_script(self.namespace, script, source)
        await self.edge.put_compiled(self.namespace, script, epoch, compiled.to_json())
        return script

    async def event(self, run: RunId, body: Event, guard: Guard, **more: Any) -> EventVerdict:
        return await self.edge.append_event(
            EventAppend(self.namespace, run, TYPE_OF[type(body)], encode_body(body), guard, **more)
        )

    async def complete(self, run: RunId, call: int, result: object) -> EventVerdict:
        body = ToolCallCompleted(call, value_of(result), None, attempts=1)
        return await self.event(run, body, Guard.CALL, n=call)

    async def signal(self, run: RunId, name: str, payload: object, ident: str) -> EventVerdict:
        body = SignalReceived(name, value_of(payload), ident, None, Actor("key", "k"))
        return await self.event(run, body, Guard.SIGNAL, signal_id=ident)

    async def fire(self, run: RunId, timer: int) -> EventVerdict:
        return await self.event(run, TimerFired(timer), Guard.TIMER, n=timer)

    async def record(self, run: RunId) -> RunRecord:
        found = await self.edge.get_run(self.namespace, run)
        assert found is not None
        return found

    async def until(self, run: RunId, holds: Any, within_s: float = 60) -> RunRecord:
        """The run's record as soon as it satisfies `holds`."""
        async with asyncio.timeout(within_s):
            while not holds(record := await self.record(run)):
                await turn()
        return record

    async def worker(self, warm_runs: int = 100) -> PostgresOwner:
        """A whole worker, serving in the background until the end of the test."""
        settings = DataPlaneSettings(
            database_url=self.url,
            database_role="rewind_worker",
            s3=NOWHERE,
            data=self.hints,
            require_confinement=False,
            worker_children=1,
            warm_runs=warm_runs,
            data_key_file=self.hints / "data.key",
            make_data_key=False,
        )
        owner = await PostgresOwner.open(self.url, data_key=DATA_KEY)
        hints = HintBus(self.hints, "worker")
        hints.start()
        blobs = BlobStore(NOWHERE)

        async def serve() -> None:
            try:
                await Worker(settings, owner, blobs, self.pool, self.checker, hints).serve(self.stop)  # type: ignore[arg-type]
            finally:
                hints.close()
                blobs.close()
                await owner.close()

        self.tasks.append(asyncio.create_task(serve()))
        return owner


@pytest_asyncio.fixture
async def bench(database_url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    organization, namespace = OrganizationId(str(uuid4())), NamespaceId(str(uuid4()))
    hints = HintBus(tmp_path, "api")
    hints.start()
    edge = await PostgresEdge.open(database_url, data_key=DATA_KEY, hints=hints)
    async with edge.pool.acquire() as connection:
        await connection.execute("insert into organizations values ($1, 'tests', 0)", organization)
        await connection.execute(
            "insert into namespaces (id, organization_id, name, created_at) values ($1, $2, 'n', 0)",
            namespace,
            organization,
        )
    async with ChildPool(children=1) as pool, Checker(children=1) as checker:
        made = Bench(edge, CountingPool(pool), checker, tmp_path, database_url, organization, namespace)
        yield made
        made.stop.set()
        await asyncio.gather(*made.tasks)
    hints.close()
    await edge.close()
