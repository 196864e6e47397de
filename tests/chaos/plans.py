"""What the runs of a chaos test do: one script that follows a plan, and random plans of everything at once.

A plan is data, so that what a run did can be compared with it, step by step.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

SCRIPT = """
import { sleep, waitForSignal, progress } from "rewind";
import { host, world } from "rewind:tools";
import { chore } from "rewind:workflows";

const groups: any = { host, world, workflows: { chore } };

async function call(step: any, init?: any): Promise<any> {
  const [group, name] = step.tool.split(".");
  try {
    const found = await groups[group][name]({ step: step.step, before: step.before, after: step.after }, init);
    return ["ok", found.step, found.number, (found.pad ?? "").length];
  } catch (error: any) {
    if (error.name === "CancelledError" && init === undefined) throw error;
    return ["error", step.step, error.name, error.code ?? null];
  }
}

function ticks(ms: number, count: number): Promise<any> {
  return new Promise(resolve => {
    let seen = 0;
    const id = setInterval(() => { if (++seen === count) { clearInterval(id); resolve(["ticks", seen]); } }, ms);
  });
}

async function follow(step: any, late: any[]): Promise<any> {
  switch (step.do) {
    case "call": return await call(step);
    case "all": return ["all", await Promise.all(step.steps.map((inner: any) => follow(inner, late)))];
    case "race": return ["race", await Promise.race(step.steps.map((inner: any) => follow(inner, late)))];
    case "forget": void call(step).then(found => late.push(found), () => undefined); return ["forgotten"];
    case "sleep": await sleep(step.ms); return ["slept"];
    case "ticks": return await ticks(step.ms, step.count);
    case "abort": return ["aborted", await call(step, { signal: AbortSignal.timeout(step.ms) })];
    case "signal": {
      const init: any = step.timeout === null ? undefined : { timeout: step.timeout };
      return ["signal", await waitForSignal<any>(step.name, init)];
    }
    case "note": console.log("note", step.text); progress({ at: step.step }); return ["noted", Math.random() < 1];
    case "throw": throw new Error(step.message);
  }
}

export default async function main(input: { steps: any[], cleanup: any }) {
  const seen: any[] = [];
  const late: any[] = [];
  try {
    for (const step of input.steps) seen.push(await follow(step, late));
  } catch (error: any) {
    if (error.name === "CancelledError") void call(input.cleanup);
    throw error;
  }
  return { seen, pad: "y".repeat(input.cleanup.pad) };
}
"""

CHORE = """
import { sleep } from "rewind";
import { host } from "rewind:tools";

export default async function main(input: { step: number, before: number, after: number }) {
  await sleep(input.before);
  const found: any = await host.again(input);
  return { step: found.step, number: found.number };
}
"""
"""The workflow `chore`, which runs call as children."""

HOST = ("host.once", "host.again", "host.big", "host.flaky", "host.refuse")
WORLD = ("world.once", "world.again")
CHILD = ("workflows.chore",)
FAILURE = "planned"


@dataclass(frozen=True)
class SentSignal:
    name: str
    payload: Any
    after_s: float
    times: int


@dataclass(frozen=True)
class Plan:
    """`cancel_after_s`: somebody cancels the run then, if it has not ended."""

    serial: int
    steps: list[dict[str, Any]]
    pad: int
    fails: bool
    cancel_after_s: float | None
    signals: list[SentSignal] = field(default_factory=list)

    @property
    def input(self) -> dict[str, Any]:
        cleanup = {
            "tool": "host.again",
            "step": self.serial * 1000 + 999,
            "before": 0,
            "after": 20,
            "pad": self.pad,
        }
        return {"steps": self.steps, "cleanup": cleanup}


class Planner:
    """Draws one plan."""

    def __init__(self, rng: Random, serial: int, *, seconds: float) -> None:
        self._rng = rng
        self._serial = serial
        self._count = 0
        self._seconds = seconds
        self._signals: list[SentSignal] = []

    def draw(self) -> Plan:
        rng = self._rng
        steps = [self._step(depth=0) for _ in range(rng.randint(4, 12))]
        fails = rng.random() < 0.1
        if fails:
            steps += [self._call("forget"), {"do": "throw", "message": FAILURE}]
        return Plan(
            serial=self._serial,
            steps=steps,
            pad=rng.choice([0, 0, 0, 100_000]),
            fails=fails,
            cancel_after_s=rng.uniform(0.1, self._seconds) if rng.random() < 0.2 else None,
            signals=self._signals,
        )

    def _number(self) -> int:
        self._count += 1
        return self._serial * 1000 + self._count

    def _call(self, do: str = "call", tools: tuple[str, ...] = HOST + WORLD + CHILD) -> dict[str, Any]:
        rng = self._rng
        before, after = (rng.choice([0, 0, 10, 150, 800]) for _ in range(2))
        return {
            "do": do,
            "tool": rng.choice(tools),
            "step": self._number(),
            "before": before,
            "after": after,
        }

    def _sleep(self) -> dict[str, Any]:
        return {"do": "sleep", "ms": self._rng.choice([0, 1, 30, 400, 1_500, 4_000])}

    def _signal(self) -> dict[str, Any]:
        rng = self._rng
        name = f"s{self._number()}"
        timeout = rng.choice([None, None, 50, 2_000])
        if timeout is None or rng.random() < 0.7:
            after = rng.uniform(0, self._seconds)
            self._signals.append(SentSignal(name, {"of": name}, after, rng.choice([1, 1, 2, 3])))
        return {"do": "signal", "name": name, "timeout": timeout}

    def _step(self, *, depth: int) -> dict[str, Any]:
        rng = self._rng
        kind = rng.choices(
            ["call", "all", "race", "forget", "sleep", "ticks", "abort", "signal", "note"],
            [10, 4 if depth == 0 else 0, 2 if depth == 0 else 0, 1, 3, 1, 1, 2, 1],
        )[0]
        if kind in {"call", "forget"}:
            return self._call(kind)
        if kind in {"all", "race"}:
            return {"do": kind, "steps": [self._step(depth=1) for _ in range(rng.randint(2, 6))]}
        if kind == "sleep":
            return self._sleep()
        if kind == "ticks":
            return {"do": "ticks", "ms": rng.choice([20, 300]), "count": rng.randint(1, 4)}
        if kind == "abort":
            return {**self._call("abort"), "ms": rng.choice([0, 50, 500])}
        if kind == "signal":
            return self._signal()
        return {"do": "note", "step": self._number(), "text": "z" * rng.randint(0, 200)}
