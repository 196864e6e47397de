"""A world in virtual time around one run: answers its calls, fires its timers, sends its signals.

Every event goes through the real child process. In `evicted` mode the isolate is dropped after each event and a
new one gets the whole history, which must give the same commands.
"""

import heapq
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.isolate.api import Delivery, RunSetup, ToolName
from sandbox.isolate.compiled import Compiled
from sandbox.isolate.pool import ChildPool, IsolateInChild

START_MS = 1_768_467_600_000
SEED = "00112233445566778899aabbccddeeff"
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
EVENTS_MAX = 5_000

Json = Any
Answer = Callable[[int, str, Json], "Outcome | None"]


def duration_ms(text: str | float) -> float:
    if isinstance(text, int | float):
        return text
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([\d.]+)\s*(ms|[smhdw])", text))


@dataclass(frozen=True)
class Outcome:
    """What a call gets, and after how long."""

    result: Json = None
    error: Json = None
    after_ms: float = 0


def value(content: Json) -> Json:
    return {"bytes": 0, "sha256": "0" * 64, "value": content}


def probe(_call: int, tool: str, args: Json) -> Outcome:
    """probe.echo gives back its argument, probe.fail fails with args.message."""
    if tool == "probe.fail":
        return Outcome(error={"message": args.get("message", "failed")})
    return Outcome(result=args)


@dataclass
class World:
    pool: ChildPool
    compiled: Compiled
    answer: Answer = field(default_factory=lambda: probe)
    tools: tuple[ToolName, ...] = ()
    input: Json = None
    evicted: bool = False
    cpu_ms: int = 5_000
    heap_bytes: int = 128 * 1024 * 1024
    limits: Json = field(default_factory=dict)
    signals: list[tuple[float, str, Json]] = field(default_factory=list)
    cancel_at: float | None = None
    run: str = "01a0b0c0-0000-7000-8000-000000000001"
    entries: list[Json] = field(default_factory=list)
    waits_done: list[int] = field(default_factory=list)
    stage: str = "running"
    replays: int = 0
    _queue: list[tuple[float, int, Json]] = field(default_factory=list)
    _order: Any = field(default_factory=itertools.count)
    _handle: IsolateInChild | None = None
    _cleared: set[int] = field(default_factory=set)

    async def run_to_end(self) -> "World":
        started = {
            "type": "run_started",
            "input": value(self.input),
            "seed": SEED,
            "deadline": START_MS + 30 * 86_400_000,
            "labels": {"team": "blue"},
            "limits": self.limits,
        }
        self._push(START_MS, started)
        for at, name, payload in self.signals:
            self.send(name, payload, at)
        if self.cancel_at is not None:
            self._push(START_MS + self.cancel_at, {"type": "cancel_requested", "reason": "user", "by": None})
        try:
            for _ in range(EVENTS_MAX):
                if self.stage == "ended" or not self._queue:
                    return self
                await self._step()
            raise AssertionError("the run does not end")
        finally:
            if self._handle is not None:
                await self._handle.close()

    # -- What came out

    @property
    def commands(self) -> list[Json]:
        return [entry for entry in self.entries if "cause" in entry and entry["type"] != "cancel_requested"]

    def of_type(self, type_: str) -> list[Json]:
        return [entry for entry in self.commands if entry["type"] == type_]

    @property
    def calls(self) -> list[Json]:
        return [[call["tool"], json.loads(call["args"])] for call in self.of_type("schedule_tool_call")]

    @property
    def logs(self) -> list[Json]:
        return [[log["level"], *json.loads(log["values"])] for log in self.of_type("log")]

    @property
    def end(self) -> Json:
        assert self.stage == "ended", f"the run is {self.stage}: {self.commands[-3:]}"
        return self.commands[-1]

    @property
    def output(self) -> Json:
        assert self.end["type"] == "complete_run", self.end
        return json.loads(self.end["output"])

    @property
    def error(self) -> Json:
        assert self.end["type"] == "fail_run", self.end
        return self.end["error"]

    # -- Events

    def send(self, name: str, payload: Json, at: float, kind: str = "key") -> None:
        event = {
            "type": "signal_received",
            "name": name,
            "payload": value(payload),
            "id": f"s{next(self._order)}",
            "by": None,
            "actor": {"kind": kind, "id": "k1"},
        }
        self._push(START_MS + at, event)

    def _push(self, time: float, event: Json) -> None:
        heapq.heappush(self._queue, (time, next(self._order), event))

    async def _step(self) -> None:
        time, _, event = heapq.heappop(self._queue)
        if event["type"] == "timer_fired" and event["timer"] in self._cleared:
            return
        times = [entry["time"] for entry in self.entries if "cause" not in entry]
        entry = {"seq": len(self.entries), "time": int(max([time, *times])), **event}
        self.entries.append(entry)
        if self._handle is None:
            self._handle = await self._open()
            if self.evicted and len(self.entries) > 1:
                await self._replay()
        delivery = await self._handle.deliver([json.dumps(entry).encode()])
        self._take(delivery, entry["time"])
        if self.evicted:
            await self._handle.close()
            self._handle = None

    async def _open(self) -> IsolateInChild:
        return await self.pool.open(
            RunSetup(
                run=self.run,
                namespace="acme",
                epoch=1,
                compiled=self.compiled,
                tools=self.tools,
                cpu_ms_per_event=self.cpu_ms,
                heap_bytes=self.heap_bytes,
            )
        )

    async def _replay(self) -> None:
        assert self._handle is not None
        history = [entry for entry in self.entries[:-1] if "cause" not in entry]
        delivery = await self._handle.deliver([json.dumps(entry).encode() for entry in history], cpu_factor=4)
        recorded = [{k: v for k, v in entry.items() if k not in {"seq", "time"}} for entry in self.commands]
        assert delivery.commands == recorded
        assert delivery.waits_done == self.waits_done
        self.replays += 1

    def _take(self, delivery: Delivery, time: float) -> None:
        self.stage = delivery.stage
        self.waits_done += delivery.waits_done
        for command in delivery.commands:
            self.entries.append({"seq": len(self.entries), "time": time, **command})
            self._effect(command, time)

    def _effect(self, command: Json, time: float) -> None:
        match command["type"]:
            case "schedule_tool_call":
                outcome = self.answer(command["call"], command["tool"], json.loads(command["args"]))
                if outcome is None:
                    return
                event = {"type": "tool_call_completed", "call": command["call"], "attempts": 1}
                if outcome.error is None:
                    event["result"] = value(outcome.result)
                else:
                    event["error"] = {
                        "name": "ToolError",
                        "code": "tool_failed",
                        "data": None,
                        "retryable": False,
                        **outcome.error,
                    }
                    if event["error"]["data"] is not None:
                        event["error"]["data"] = value(event["error"]["data"])
                self._push(time + outcome.after_ms, event)
            case "start_timer":
                due = command["at"] if command["at"] is not None else time + max(command["delay"], 0)
                self._push(max(due, time), {"type": "timer_fired", "timer": command["timer"]})
            case "timer_cleared":
                self._cleared.add(command["timer"])


def table(spec: Json) -> Answer:
    """The mock table of a case (FORMAT.md): rows are used once each, in order, unless `repeat`."""
    rows = {tool: list(found) for tool, found in spec["tools"].items()}

    def answer(_call: int, tool: str, args: Json) -> Outcome:
        for index, row in enumerate(rows[tool]):
            if row["args"] in ("*", args):
                if not row.get("repeat"):
                    del rows[tool][index]
                error = row.get("error")
                return Outcome(row.get("result"), error, duration_ms(row.get("after", 0)))
        raise AssertionError(f"no row answers {tool}({args})")

    return answer
