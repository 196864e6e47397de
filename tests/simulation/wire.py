"""What lies between a simulated process and the rest: the store with its faults, hints that get lost, big values."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sandbox.journal.canonical import value_of_text
from sandbox.journal.entries import Value
from sandbox.journal.errors import Unavailable
from sandbox.journal.ids import NamespaceId, RunId, Sha256, WorkerId
from sandbox.store.hints import Message
from sandbox.store.interface import CommandAppend, EventAppend, EventOutcome, StartOutcome, StartRun
from sandbox.store.memory import MemoryStore
from sandbox.store.postgres.announcing import announce_event
from sandbox.store.postgres.children import ChildStart
from tests.simulation.loop import Process
from tests.simulation.world import World


class Endpoint:
    """One process's hints: to every process of a role, lost, doubled, late, in any order."""

    def __init__(self, world: World, process: Process, role: str) -> None:
        self._world = world
        self._process = process
        self.address = f"{role}-{process.name}"
        self.role = role
        self._handlers: list[Callable[[Message], None]] = []
        world.endpoints.append(self)

    @property
    def alive(self) -> bool:
        return not self._process.dead

    def on_message(self, handler: Callable[[Message], None]) -> None:
        self._handlers.append(handler)

    def send(self, role: str, message: Message, *, lazy: bool = False) -> None:
        for endpoint in self._world.endpoints:
            if endpoint.role == role and endpoint.alive:
                endpoint._arrive(message)

    def send_to(self, address: str, message: Message) -> None:
        for endpoint in self._world.endpoints:
            if endpoint.address == address and endpoint.alive:
                endpoint._arrive(message)

    def _arrive(self, message: Message) -> None:
        delays = self._world.faults.hint_delays()
        if len(delays) != 1:
            self._world.counts["hints doubled" if delays else "hints lost"] += 1
        for delay_s in delays:
            self._process.soon(delay_s, self._handle, message)

    def _handle(self, message: Message) -> None:
        for handler in self._handlers:
            handler(dict(message))


class Line:
    """A process's connection to the store. What was sent is executed, whether or not its sender still lives."""

    def __init__(self, world: World, process: Process, hints: Endpoint | None = None) -> None:
        self._world = world
        self._process = process
        self._hints = hints
        self.real = MemoryStore(world.journals)
        self.on_batch: Callable[[Sequence[CommandAppend]], None] | None = None
        process.on_death.append(lambda: world.journals.locks.discard(self.real.worker))

    @property
    def worker(self) -> WorkerId:
        return self.real.worker

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.real, name)

        async def ask(*args: Any, **options: Any) -> Any:
            return await self._ask(name, method, args, options)

        return ask

    async def append_commands(self, append: CommandAppend) -> Any:
        if self.on_batch is not None:
            self.on_batch([append])
        return await self._ask("append_commands", self.real.append_commands, (append,), {})

    async def append_event(self, event: EventAppend) -> Any:
        verdict = await self._ask("append_event", self.real.append_event, (event,), {})
        if self._hints is not None and verdict.outcome is EventOutcome.APPENDED:
            announce_event(self._hints, event, verdict)  # type: ignore[arg-type]  # it can send
        return verdict

    async def start_run(self, request: Any) -> Any:
        verdict = await self._ask("start_run", self.real.start_run, (request,), {})
        if self._hints is not None and verdict.outcome is StartOutcome.STARTED:
            self._hints.send("worker", {"k": "ready"})
        return verdict

    async def start_child(
        self, call: Any, claim_id: str, child: RunId, request: StartRun | None, *, awaited: bool
    ) -> Any:
        if request is not None:
            self._world.starting.child(request)
        options = {"awaited": awaited}
        done = await self._ask(
            "start_child", self.real.start_child, (call, claim_id, child, request), options
        )
        if self._hints is not None and done is ChildStart.NEW:
            self._hints.send("worker", {"k": "ready"})
        return done

    async def begin_runs(self, runs: Any) -> Any:
        begun = await self._ask("begin_runs", self.real.begin_runs, (runs,), {})
        if begun and self._hints is not None:
            self._hints.send("worker", {"k": "ready"})
        return begun

    async def _ask(self, name: str, method: Any, args: Any, options: Any) -> Any:
        world = self._world
        fate = world.faults.of_request(name)
        if fate != "fine":
            world.counts["requests lost" if fate == "lost" else "answers lost"] += 1
        answer: asyncio.Future[Any] = world.loop.create_future()
        world.server.soon(world.faults.latency(), self._serve, answer, name, method, args, options, fate)
        return await answer

    def _serve(
        self, answer: "asyncio.Future[Any]", name: str, method: Any, args: Any, options: Any, fate: str
    ) -> None:
        if fate == "lost":
            self._answer(answer, Unavailable("the request was lost"))
            return
        try:
            result = self._world.execute(self._process.name, name, method, args, options)
        except Exception as error:
            self._answer(answer, error)
            return
        self._answer(answer, Unavailable("the answer was lost") if fate == "unknown" else result)

    def _answer(self, answer: "asyncio.Future[Any]", result: Any) -> None:
        def arrive() -> None:
            if answer.done():
                return
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        self._process.soon(self._world.faults.latency(), arrive)


class BigValues:
    """The object store of the simulation: what was put is there, now and then it does not answer."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def get(self, namespace: NamespaceId, sha256: Sha256) -> bytes:
        await self._trip()
        return self._world.values[namespace, sha256]

    async def put(self, namespace: NamespaceId, sha256: Sha256, data: bytes) -> None:
        await self._trip()
        self._world.values[namespace, sha256] = data

    async def text(self, namespace: NamespaceId, value: Value) -> bytes:
        """As the control plane reads it."""
        if value.text is not None:
            await self._trip()
            return value.text
        return await self.get(namespace, value.sha256)

    async def store(self, namespace: NamespaceId, text: bytes) -> Value:
        value = value_of_text(text)
        await self.put(namespace, value.sha256, text)
        return value

    async def _trip(self) -> None:
        await asyncio.sleep(self._world.faults.latency())
        if self._world.faults.of_request("value") != "fine":
            raise Unavailable("the object store did not answer")
