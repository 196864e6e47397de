"""Our processes in a simulation: worker, scheduler, dispatcher. They leave as after SIGTERM when their time has come."""

import asyncio
from types import SimpleNamespace
from typing import Any

from app.dispatcher.calls import CallMaker, Flight
from app.dispatcher.children import ChildEnds, ChildStarter
from app.dispatcher.loop import Dispatcher
from app.dispatcher.redaction import Redactor
from app.dispatcher.results import failed
from app.scheduler.loop import run_scheduler
from sandbox.compiler.json_schema import ValueValidator
from sandbox.isolate.api import IsolateHandle, RunSetup
from sandbox.journal.fork import idempotency_key
from sandbox.journal.ids import Json
from sandbox.worker.ownership import Ownership
from sandbox.worker.warm_runs import WarmRuns
from tests.simulation.customers import patiently
from tests.simulation.loop import Process
from tests.simulation.script import ScriptedIsolates
from tests.simulation.starting import EPOCH, PINNED, PINS, Scripts, Workflows
from tests.simulation.verdicts import require
from tests.simulation.wire import BigValues, Endpoint, Line
from tests.simulation.world import World

OBJECT = ValueValidator({"type": "object"})


async def serve_worker(world: World, process: Process, isolates: "Isolates", *, warm: int) -> None:
    """What `rewind worker` does about runs."""
    hints = Endpoint(world, process, "worker")
    line = Line(world, process, hints)
    runs = WarmRuns(
        line,  # type: ignore[arg-type]  # it answers what the store does
        BigValues(world),
        isolates,
        hints,
        warm_max=warm,
        clock=process.clock,
    )
    ownership = Ownership(line, runs, hints, [EPOCH])  # type: ignore[arg-type]
    hints.on_message(ownership.on_hint)
    await patiently(lambda: line.register([EPOCH]))
    loops = ownership.loops()
    await process.term.wait()
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    await runs.drain(8.0)
    await patiently(line.deregister)


class Isolates:
    """Scripted isolates that notice when events are left out or given in another order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._scripted = ScriptedIsolates(world.faults)

    async def open(self, setup: RunSetup) -> IsolateHandle:
        return await self._scripted.open(setup)


async def serve_scheduler(world: World, process: Process) -> None:
    line = Line(world, process, Endpoint(world, process, "api"))
    await run_scheduler(line, process.term)  # type: ignore[arg-type]


class Maker(CallMaker):
    """Starts children, and calls a server that does what it is asked after a while, or fails."""

    def __init__(self, world: World, line: Line) -> None:
        self._world = world
        values = BigValues(world)
        super().__init__(
            store=line,  # type: ignore[arg-type]
            toolsets=Toolsets(world),  # type: ignore[arg-type]
            servers=NoServers(world),  # type: ignore[arg-type]
            http=NoServers(world),  # type: ignore[arg-type]
            values=values,  # type: ignore[arg-type]
            children=ChildStarter(
                store=line,  # type: ignore[arg-type]
                scripts=Scripts(world.faults.travel),  # type: ignore[arg-type]
                workflows=Workflows(world.faults.travel),  # type: ignore[arg-type]
                values=values,  # type: ignore[arg-type]
                epoch=EPOCH,
            ),
        )

    async def _call_tool(
        self, flight: Flight, endpoint: Any, tool: Any, args: dict[str, Any], key: str, left_s: float
    ) -> Json:
        call, world = flight.call, self._world
        same = idempotency_key(call.run, call.call, call.body)
        require(key == same, f"call {call.call} of {call.run} goes out with the key {key}, not {same}")
        await asyncio.sleep(world.random.choice((0.0, 0.01, 2.0, 20.0)))
        world.effect(call.run, call.call, call.body, idempotent=tool.idempotent)
        await asyncio.sleep(world.random.choice((0.0, 0.01, 2.0)))
        if world.random.random() < 0.2:
            raise failed("tool_failed", "it failed")
        return call.call


class Toolsets:
    """What the control plane knows of the tools that Rewind calls itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.servers = self
        self._tools = {
            tool["name"]: SimpleNamespace(
                workflow=PINS.get(tool["name"]),
                server="mcp",
                original=tool["name"],
                retry=tool.get("retry"),
                input=OBJECT,
                output=None,
                idempotent=tool["idempotent"],
            )
            for tool in PINNED
        }

    async def tools(self, *_toolset: object) -> dict[str, SimpleNamespace]:
        await self._world.faults.travel()
        return self._tools

    async def endpoint(self, *_server: object) -> tuple[None, Redactor]:
        await self._world.faults.travel()
        return None, Redactor()


class NoServers:
    def __init__(self, world: World) -> None:
        self._world = world

    def tidy(self) -> None:
        """Nothing is kept open."""

    async def close(self) -> None:
        await asyncio.sleep(self._world.faults.latency())


async def serve_dispatcher(world: World, process: Process, number: int) -> None:
    hints = Endpoint(world, process, "api")
    line = Line(world, process, hints)
    dispatcher = Dispatcher(
        store=line,  # type: ignore[arg-type]
        maker=Maker(world, line),
        children=ChildEnds(line),  # type: ignore[arg-type]
        servers=NoServers(world),  # type: ignore[arg-type]
        hints=hints,  # type: ignore[arg-type]
    )
    dispatcher._id = f"dispatcher {number}"
    claims = world.checks.dispatchers
    claims.add(dispatcher._id)
    process.on_death.append(lambda: claims.discard(dispatcher._id))
    await dispatcher.run(process.term)
