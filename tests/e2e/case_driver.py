"""Plays the world for one case script on the real product: its tools, its signals, its time.

Tools are served by the SDK's worker in this process. A call's completion is held until nothing else can
happen in the run (every event is delivered, every offered call has arrived here), then the one that is due
first in virtual time is let go: so the order of completions is the case's, whatever is killed meanwhile.
Likewise time is advanced, and a signal sent, only when the run waits for nothing else.
"""

import asyncio
import heapq
import json
import os
import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import rewind

from sandbox.journal.canonical import parse_json
from tests.e2e.stack import Database, eventually

CASES = Path(__file__).resolve().parents[1] / "cases" / "scripts"
UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
RUN_TIMEOUT_S = 120
FIRST, SAMPLE = 15, 5


def case_names() -> list[str]:
    """Those that this driver can play: calls are completed and signals sent before any timer is due.

    The first show every feature of the platform; of the others, which are about the language, a sample by a printed
    seed. With REWIND_SOAK=1 all.
    """
    names = sorted(path.name for path in CASES.iterdir() if path.is_dir())
    played = [name for name in names if "timed" not in json.loads((CASES / name / "tools.json").read_text())]
    if os.environ.get("REWIND_SOAK") == "1":
        return played
    seed = int(os.environ.get("REWIND_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print(f"\ncases by seed {seed}")
    return played[:FIRST] + sorted(random.Random(seed).sample(played[FIRST:], SAMPLE))


def milliseconds(text: str | None) -> int:
    if text is None:
        return 0
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s|m|h|d|w)", text).groups()  # type: ignore[union-attr]
    return int(float(number) * UNITS_MS[unit])


@dataclass(frozen=True)
class Case:
    name: str
    script: str
    tools: dict[str, Any]
    expected: dict[str, Any]

    @classmethod
    def load(cls, name: str) -> "Case":
        folder = CASES / name
        return cls(
            name,
            (folder / "script.ts").read_text(),
            parse_json((folder / "tools.json").read_text()),  # type: ignore[arg-type]
            parse_json((folder / "expected.json").read_text()),  # type: ignore[arg-type]
        )

    @property
    def toolset(self) -> str:
        return "case-" + self.name


@dataclass(order=True)
class HeldCall:
    """A call whose completion waits for its turn."""

    due_ms: int
    call: int
    release: asyncio.Future[None] = field(compare=False)


@dataclass
class World:
    """What one run of a case sees and leaves behind."""

    case: Case
    run: str = ""
    clock_ms: int = 0
    held: list[HeldCall] = field(default_factory=list)
    executed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """How often each call was executed by the tool worker."""
    answers: dict[int, dict[str, Any]] = field(default_factory=dict)
    used: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    signals_sent: int = 0

    def answer_for(self, tool: str, call: int, args: Any) -> dict[str, Any]:
        """The row that answers a call: the first unused one with equal arguments. A repeated call gets it again."""
        if call not in self.answers:
            rows = self.case.tools["tools"].get(tool, [])
            for index, row in enumerate(rows):
                matches = row.get("args", "*") in ("*", args)
                if matches and (row.get("repeat") or index not in self.used[tool]):
                    self.used[tool].add(index)
                    self.answers[call] = row
                    break
            else:
                raise AssertionError(f"{self.case.name}: no answer for {tool}({json.dumps(args)})")
        return self.answers[call]


class Product(Protocol):
    """The running product as a player needs it."""

    url: str
    api_key: str
    database: Database

    def logs(self) -> str: ...
    def check_alive(self) -> None: ...


class Player:
    """Registers the cases' toolsets, serves their tools, and plays runs one after the other or side by side."""

    def __init__(self, stack: Product, cases: list[Case]) -> None:
        self.stack = stack
        self.cases = cases
        self.client = rewind.AsyncRewind(
            api_key=stack.api_key, base_url=stack.url, namespace="cases", max_retries=40
        )
        self.worlds: dict[str, World] = {}
        self._workers: list[Any] = []
        self._early: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def __aenter__(self) -> Self:
        for case in self.cases:
            tools = [self._tool(name, case) for name in case.tools["tools"]]
            await self.client.toolsets.register(case.toolset, tools=tools)
            worker = self.client.worker(tools=tools, toolset=case.toolset, max_slots=16)
            await worker.__aenter__()
            self._workers.append(worker)
        return self

    async def __aexit__(self, *_: object) -> None:
        for world in self.worlds.values():
            for held in world.held:
                held.release.cancel()
        await asyncio.gather(*(worker.__aexit__(None, None, None) for worker in self._workers))
        await self.client.aclose()

    def _tool(self, name: str, case: Case) -> rewind.Tool:
        schemas = case.tools["schemas"][name]

        async def serve(args: dict[str, Any], ctx: rewind.ToolContext) -> Any:
            return await self.execute(name, ctx.run, ctx.call, args)

        return rewind.tool(
            name=name,
            input_schema=schemas["inputSchema"],
            output_schema=schemas.get("outputSchema"),
        )(serve)

    async def execute(self, name: str, run: str, call: int, args: dict[str, Any]) -> Any:
        """Execute a call of a tool: its answer is let go of when its turn has come."""
        await self._early[run].wait()
        world = self.worlds[run]
        world.executed[call] += 1
        row = world.answer_for(name, call, args)
        due = world.clock_ms + milliseconds(row.get("after"))
        held = HeldCall(due, call, asyncio.get_running_loop().create_future())
        heapq.heappush(world.held, held)
        await held.release
        if "error" in row:
            error = row["error"]
            raise rewind.ToolError(error["message"], code=error.get("code"), data=error.get("data"))
        return row["result"]

    async def start(self, case: Case) -> World:
        run = await self.client.runs.start(
            script=case.script, toolset=case.toolset, input=case.tools["input"]
        )
        world = World(case, run.id)
        self.worlds[run.id] = world
        self._early[run.id].set()
        return world

    async def play(self, case: Case) -> World:
        """Start the case and play its world until the run has ended."""
        world = await self.start(case)
        await self.finish(world)
        return world

    async def finish(self, world: World) -> None:
        await eventually(
            lambda: self._step(world),
            within_s=RUN_TIMEOUT_S,
            what=f"the end of {world.case.name} (run {world.run})\n{self.stack.logs()}",
            every_s=0.003,
        )

    async def _step(self, world: World) -> bool:
        """Let the next thing happen if nothing else can; True at the end of the run."""
        self.stack.check_alive()
        row = await self.stack.database.row(STATE_SQL, world.run)
        if row["status"] != 0:
            return True
        if row["delivered"] < row["last_event"] or row["unclaimed"] or row["calls"] != len(world.held):
            return False
        due = row["due"]
        now = await self.stack.database.now()
        if world.held:
            held = heapq.heappop(world.held)
            world.clock_ms = max(world.clock_ms, held.due_ms)
            held.release.set_result(None)
            settled = held.call
            await eventually(
                lambda: self._settled(world, settled),
                within_s=RUN_TIMEOUT_S,
                what="an outcome",
                every_s=0.003,
            )
        elif row["waits"] and world.signals_sent < len(world.case.tools.get("signals", [])):
            signal = world.case.tools["signals"][world.signals_sent]
            await self.client.runs.signal(
                world.run, signal["name"], signal["payload"], id=f"s{world.signals_sent}"
            )
            world.signals_sent += 1
        elif due is not None and due > now:
            await self.stack.database.advance(due - now)
        return False

    async def _settled(self, world: World, call: int) -> bool:
        row = await self.stack.database.row(
            "select 1 from pending where run_id = $1 and kind = 0 and n = $2", world.run, call
        )
        return row is None


# All of one run's pending things at one moment: what can still happen by itself?
STATE_SQL = """select r.status, r.delivered, r.last_event,
  count(*) filter (where p.kind = 0) as calls,
  count(*) filter (where p.kind = 0 and p.claim_id is null) as unclaimed,
  count(*) filter (where p.kind = 2) as waits,
  min(p.due) filter (where p.kind = 1) as due
  from runs r left join pending p on p.namespace_id = r.namespace_id and p.run_id = r.run_id
  where r.run_id = $1 group by r.namespace_id, r.run_id, r.status, r.delivered, r.last_event"""


def check(world: World, run: rewind.Run, entries: list[dict[str, Any]]) -> None:
    """The run did what the case expects: output or error, calls in order, logs; every call executed once."""
    case, expected = world.case, world.case.expected
    shown = "\n".join(json.dumps(entry) for entry in entries)
    assert run.status == expected["status"], f"{case.name}: {run.raw}\n{shown}"
    if expected["status"] == "completed":
        assert run.output == expected["output"], case.name
    else:
        assert run.error["name"] == expected["error"]["name"], case.name
        assert expected["error"]["message"] in run.error["message"], case.name
    calls = [
        [entry["tool"], entry["args"]["value"]] for entry in entries if entry["type"] == "schedule_tool_call"
    ]
    assert calls == expected["calls"], case.name
    logs = [
        f"{entry['level']} "
        + " ".join(value if isinstance(value, str) else json.dumps(value) for value in entry["values"])
        for entry in entries
        if entry["type"] == "log"
    ]
    assert logs == expected["logs"], case.name
    assert [entry["seq"] for entry in entries] == list(range(len(entries))), case.name
    assert dict(world.executed) == dict.fromkeys(range(1, len(calls) + 1), 1), case.name
