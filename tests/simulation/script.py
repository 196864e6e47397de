"""The scripted isolate: obeys the protocol of the real one, with a random script in the place of TypeScript.

A seed is a script: what it does depends only on the events that it was given so far, so any isolate with the
same seed does the same again. Its rules are those of the prelude (sandbox/epochs/e1/src/deliver.js).

A seed may be edited, as a script is for a fork: `7/0~log` logs more, `7/0~args3` gives its third call other
arguments, `7/0~tail4` goes another way from its fourth event on. `7/0~flows` calls many workflows, `7/0~limit` exceeds
a limit, `7/0~wide` begins with several calls at once; `7/0~lasting` begins with a call of a workflow, which sleeps first. `7/0>2` is the workflow that call 2 of 7/0 starts.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from sandbox.isolate.api import ChildDied, Delivery, IsolateHandle, IsolateLost, LimitExceeded, RunSetup

RUNNING, RETURNING, FAILING, CANCELLING, ENDED = "running", "returning", "failing", "cancelling", "ended"
NAMES = ("go", "stop")
TOOLS = ("host.once", "host.again", "mcp.once", "mcp.again", "host.gated")
UNGATED = TOOLS[:-1]
WORKFLOWS = ("workflows.child", "workflows.child.start")
DEPTH_MAX = 2
"""So deep do workflows call workflows."""
DELAYS_MS = (0, 0.5, 40, 700, 3_000, 12_000)
LASTING_MS = 40_000
ACTIONS_MAX = 24
CALL, TIMER, WAIT = "call", "timer", "wait"


@dataclass(slots=True)
class Pending:
    kind: str
    n: int
    name: str = ""
    timer: int | None = None
    harness: bool = False
    delay: float = 0


class Script:
    """One run as the sandbox sees it; `deliver` gives an event, the commands gather in `commands`."""

    def __init__(self, seed: str) -> None:
        base, *edits = seed.split("~")
        self.random = Random(base)
        self._edits = edits
        depth = base.count(">")
        self.stage = RUNNING
        self.delivered = -1
        self.commands: list[dict[str, Any]] = []
        self.waits_done: list[int] = []
        self._cause = 0
        self._pending: dict[tuple[str, int], Pending] = {}
        self._kept: list[tuple[str, bool]] = []
        self._made = {CALL: 0, TIMER: 0, WAIT: 0}
        self._outstanding = 0
        self._delivering = self._accepting = True
        self._cleaning_up = False
        self._end_reason: str | None = None
        self._failed_by = 0
        self._events = 0
        self._left = self.random.randrange(1, ACTIONS_MAX >> depth)
        calls = depth < DEPTH_MAX and (self.random.random() < 0.5 or "flows" in edits)
        self._tools = (*TOOLS, *WORKFLOWS) if calls else TOOLS
        self._ungated = (*UNGATED, *WORKFLOWS[:1]) if calls else UNGATED
        self._limit_at = self.random.randrange(2, 12) if self.random.random() < 0.06 else 0
        if "limit" in edits:
            self._limit_at = self.random.randrange(2, 5)
        self._sleeps = depth > 0 and "lasting" in edits
        if "flows" in edits:
            self._tools = (*self._tools, *WORKFLOWS, *WORKFLOWS)
        self._bursts = self.random.choice(((0, 1), (1, 1, 2), (1, 2, 4)))

    def deliver(self, event: dict[str, Any]) -> None:
        if event["seq"] <= self.delivered:
            raise AssertionError(f"event {event['seq']} is delivered after {self.delivered}")
        self.delivered = self._cause = event["seq"]
        if self.stage == ENDED:
            return
        self._events += 1
        if f"tail{self._events}" in self._edits:
            self.random = Random(f"{self.random.random()} another way")
        if self._events == self._limit_at and self.stage == RUNNING and event["type"] != "cancel_requested":
            raise LimitExceeded("cpu", 5_000, 5_001, event["seq"], cpu_us=7)
        match event["type"]:
            case "run_started":
                if self._sleeps:
                    self._start_timer("sleep", LASTING_MS)
                self._react()
            case "tool_call_completed":
                self._complete(event["call"])
            case "timer_fired":
                self._fire(event["timer"])
            case "signal_received":
                self._signal(event)
            case "cancel_requested":
                self._cancel(event["reason"])
        if self._delivering:
            self._judge()
        self._finish()

    # -- Events

    def _complete(self, call: int) -> None:
        self._outstanding = max(0, self._outstanding - 1)
        if self._delivering and self._pending.pop((CALL, call), None) is not None:
            self._react()

    def _fire(self, timer: int) -> None:
        found = self._pending.pop((TIMER, timer), None)
        if found is None:
            return
        self._sleeps = False
        if found.name == "interval" and self._delivering:
            self._start_timer("interval", found.delay)
        if found.name == "signal_timeout":
            wait = next((w for w in self._pending.values() if w.kind == WAIT and w.timer == timer), None)
            if wait is not None:
                self._satisfy(wait, clear=False)
        self._react()

    def _signal(self, event: dict[str, Any]) -> None:
        sender = event["actor"]["kind"] in {"key", "member"}
        for wait in [wait for wait in self._pending.values() if wait.kind == WAIT]:
            if wait.name == event["name"] and (sender or not wait.harness):
                self._satisfy(wait, clear=True)
                self._react()
                return
        self._kept.append((event["name"], sender))

    def _satisfy(self, wait: Pending, *, clear: bool) -> None:
        del self._pending[WAIT, wait.n]
        self.waits_done.append(wait.n)
        if (
            clear
            and self._delivering
            and wait.timer is not None
            and self._pending.pop((TIMER, wait.timer), None) is not None
        ):
            self._emit("timer_cleared", timer=wait.timer)

    def _cancel(self, reason: str) -> None:
        if self.stage != RUNNING or reason == "limit":
            self._delivering = self._accepting = False
            if reason == "limit":
                self.stage = CANCELLING
            return
        self.stage = CANCELLING
        self._end_reason = reason
        self._pending.clear()
        self._cleaning_up = True
        for _ in range(self.random.choice((0, 0, 1, 2))):
            self._call()
        self._cleaning_up = False
        self._delivering = self._accepting = False

    # -- After each event

    def _judge(self) -> None:
        if self.stage == RUNNING and not self._pending and self.random.random() < 0.7:
            self.stage = RETURNING
        fails = self.stage == RUNNING and not self._pending
        fails = fails or (
            self._left <= 0 and self.stage in {RUNNING, RETURNING} and self.random.random() < 0.1
        )
        if fails:
            self.stage = FAILING
            self._failed_by = self._cause
            self._delivering = self._accepting = False

    def _finish(self) -> None:
        if self._outstanding:
            return
        if self.stage == RETURNING:
            self._emit(
                "complete_run", line=False, output=json.dumps("x" * self.random.choice((1, 5, 70_000)))
            )
        elif self.stage == FAILING:
            error = {"name": "DeadlockError", "message": "nothing can happen"}
            self._emit("fail_run", line=False, cause=self._failed_by, error=error)
        elif self.stage == CANCELLING and self._end_reason is not None:
            self._emit("cancel_run", line=False, reason=self._end_reason)
        else:
            return
        self._delivering = self._accepting = False
        self.stage = ENDED

    # -- What a script does

    def _react(self) -> None:
        if not self._accepting or self._sleeps:
            return
        if "log" in self._edits:
            self._emit("log", level="debug", values='["added"]')
        for _ in range(3 if "wide" in self._edits and self._events == 1 else 0):
            self._call()
        if "lasting" in self._edits and self._events == 1:
            self._call(WORKFLOWS[0])
        for _ in range(self.random.choice(self._bursts)):
            if self._left > 0:
                self._left -= 1
                self.random.choice(
                    (
                        self._call,
                        self._call,
                        self._call,
                        self._timer,
                        self._wait,
                        self._log,
                        self._abort,
                        self._clear,
                    )
                )()
        if self.stage == RUNNING and (self._left <= 0 or self.random.random() < 0.05):
            open_calls = any(found.kind == CALL for found in self._pending.values())
            if self.random.random() < (0.3 if open_calls else 0.8):
                self.stage = RETURNING

    def _call(self, tool: str | None = None) -> None:
        n = self._add(CALL).n
        if self._cleaning_up:
            del self._pending[CALL, n]
        self._outstanding += 1
        pad = "x" * self.random.choice((0, 0, 0, 30))
        if f"args{n}" in self._edits:
            pad += "edited"
        args = json.dumps({"n": n, "pad": pad})
        fields: dict[str, Any] = {
            "call": n,
            "tool": tool or self.random.choice(self._ungated if self._cleaning_up else self._tools),
            "args": args,
        }
        if self.random.random() < 0.2:
            fields["timeout_ms"] = self.random.choice((900, 20_000, 60_000))
        self._emit("schedule_tool_call", **fields)

    def _start_timer(self, why: str, delay: float) -> int:
        timer = self._add(TIMER, name=why, delay=delay)
        self._emit("start_timer", timer=timer.n, delay=delay, at=None, why=why)
        return timer.n

    def _timer(self) -> None:
        why = self.random.choice(("sleep", "timeout", "interval"))
        self._start_timer(why, self.random.choice(DELAYS_MS[2:] if why == "interval" else DELAYS_MS))

    def _wait(self) -> None:
        timer = (
            self._start_timer("signal_timeout", self.random.choice(DELAYS_MS))
            if self.random.random() < 0.7
            else None
        )
        name, harness = self.random.choice(NAMES), self.random.random() < 0.3
        wait = self._add(WAIT, name=name, timer=timer, harness=harness)
        self._emit(
            "signal_awaited", wait=wait.n, name=name, timer=timer, **{"from": "harness" if harness else None}
        )
        for kept in self._kept:
            if kept[0] == name and (kept[1] or not harness):
                self._kept.remove(kept)
                self._satisfy(wait, clear=True)
                return

    def _log(self) -> None:
        level = self.random.choice(("info", "progress"))
        self._emit("log", level=level, values=json.dumps([self.random.randrange(100)]))

    def _abort(self) -> None:
        calls = [found for found in self._pending.values() if found.kind == CALL]
        if calls:
            call = self.random.choice(calls)
            del self._pending[CALL, call.n]
            self._emit("tool_call_cancelled", call=call.n)

    def _clear(self) -> None:
        found = self.random.choice(list(self._pending.values())) if self._pending else None
        if found is not None and found.kind == TIMER and found.name != "signal_timeout":
            del self._pending[TIMER, found.n]
            self._emit("timer_cleared", timer=found.n)
        elif found is not None and found.kind == WAIT:
            del self._pending[WAIT, found.n]
            self._emit("signal_wait_cleared", wait=found.n)
            if found.timer is not None and self._pending.pop((TIMER, found.timer), None) is not None:
                self._emit("timer_cleared", timer=found.timer)

    def _add(self, kind: str, **fields: Any) -> Pending:
        self._made[kind] += 1
        record = Pending(kind, self._made[kind], **fields)
        self._pending[kind, record.n] = record
        return record

    def _emit(self, type_: str, *, line: bool = True, cause: int | None = None, **fields: Any) -> None:
        site = {"line": 1 + len(self.commands) % 9, "column": 1} if line else {}
        self.commands.append(
            {"cause": self._cause if cause is None else cause, "type": type_, **fields, **site}
        )


class Weather(Protocol):
    """What can happen to an isolate that is no fault of its script."""

    async def delivering(self, run: str) -> None:
        """Takes its time. Errors: ChildDied, IsolateLost."""
        ...


@dataclass
class ScriptedIsolate:
    script: Script
    run: str
    weather: Weather
    lost: bool = False

    async def deliver(self, events: Sequence[bytes], *, cpu_factor: int = 1) -> Delivery:
        if self.lost:
            raise IsolateLost("the isolate is gone")
        try:
            await self.weather.delivering(self.run)
            for event in events:
                self.script.deliver(json.loads(event))
        except (ChildDied, LimitExceeded, asyncio.CancelledError):
            self.lost = True
            raise
        commands, self.script.commands = self.script.commands, []
        done, self.script.waits_done = self.script.waits_done, []
        return Delivery(commands, done, self.script.stage, self.script.delivered, 100 * len(events))

    async def close(self) -> None:
        self.lost = True
        await asyncio.sleep(0)


@dataclass
class ScriptedIsolates:
    """The script's seed stands where its JavaScript would."""

    weather: Weather
    opened: dict[str, int] = field(default_factory=dict)

    async def open(self, setup: RunSetup) -> IsolateHandle:
        await asyncio.sleep(0)
        self.opened[setup.run] = self.opened.get(setup.run, 0) + 1
        return ScriptedIsolate(Script(setup.compiled.js), setup.run, self.weather)
