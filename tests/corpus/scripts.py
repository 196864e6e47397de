"""The scripts of the corpus: between them each kind of entry, each ending and each built-in of epoch 1."""

from dataclasses import dataclass, field
from typing import Any

from sandbox.journal.entries import CancelRequested, Limits

Json = Any


@dataclass(frozen=True)
class Recipe:
    """How to record one: a test in virtual time, with what answers the script."""

    source: str
    tools: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()
    input: Json = None
    mocks: dict[str, Json] = field(default_factory=dict)
    signals: list[Json] = field(default_factory=list)
    approvals: dict[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    cancel_at: int | None = None
    cancel: CancelRequested = field(default_factory=lambda: CancelRequested("user"))


_KINDS = """
import { sleep, waitForSignal, retry, progress, run } from "rewind";
import { g, gate } from "rewind:tools";
export default async function main(input: { n: number }) {
  console.log("started", { n: input.n, at: new Date(), run: run.id });
  progress({ done: 0 });
  const stop = new AbortController();
  const aborted = g.slow({ n: 1 }, { signal: stop.signal }).catch((e: Error) => e.name);
  const wait = waitForSignal("never", { signal: stop.signal }).catch((e: Error) => e.name);
  const timer = setTimeout(() => console.log("not reached"), "1h" as any);
  await sleep("5s");
  clearTimeout(timer);
  stop.abort();
  const timedOut = await waitForSignal("nobody", { timeout: "2s" });
  const got = await waitForSignal<{ yes: boolean }>("answer", { timeout: "3d" });
  const approved = await gate.open({ door: 1 });
  const refused = await gate.close({ door: 2 }).catch((e: any) => [e.name, e.tool]);
  const tried = await retry(async (attempt) => {
    if (attempt < 3) throw new Error("again");
    return attempt;
  });
  const failed = await g.fail({}).catch((e: any) => ({ name: e.name, code: e.code, line: e.stack.split("\\n")[1] }));
  const all = await Promise.all([1, 2, 3].map((n) => g.echo({ n })));
  return { aborted: await aborted, wait: await wait, timedOut, got, approved, refused, tried, failed, all };
}
"""

_BUILT_INS = """
export default async function main() {
  const found: Record<string, unknown> = {};
  for (const name of Object.getOwnPropertyNames(globalThis).sort()) {
    const value = (globalThis as any)[name];
    const members = (o: any) => (o === null || o === undefined ? [] : Reflect.ownKeys(o).map(String).sort());
    found[name] = typeof value === "function" || (typeof value === "object" && value !== globalThis)
      ? [typeof value, members(value).join(), members(value?.prototype).join()]
      : typeof value === "number" ? String(value) : typeof value;
  }
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode("rewind"));
  const url = new URL("https://m\\u00fcnchen.example/a/../b?c=d#e");
  const target = new EventTarget();
  const heard: string[] = [];
  target.addEventListener("x", (e) => heard.push(e.type));
  target.dispatchEvent(new Event("x"));
  await new Promise<void>((resolve) => queueMicrotask(resolve));
  let ticks = 0;
  await new Promise<void>((resolve) => {
    const interval = setInterval(() => { if (++ticks === 3) { clearInterval(interval); resolve(); } }, 10);
  });
  let depth = 0;
  const dive = () => { depth++; dive(); };
  try { dive(); } catch {}
  return {
    found,
    depth,
    heard,
    ticks,
    random: [Math.random(), Math.random(), crypto.randomUUID(), [...bytes]],
    time: [Date.now(), new Date().toISOString(), performance.now(), new Date(0).toString(), Date.UTC(2020, 1, 29)],
    text: [btoa("war"), atob("d2Fy"), url.href, String(new URLSearchParams("a=b&c=d")), [...new Uint8Array(digest)].join()],
    clone: structuredClone({ a: [1, new Date(5)], m: [...new Map([[1, 2]])] }),
    numbers: [0.1 + 0.2, 1e21, 2 ** 53, -0, Math.sin(1), Math.exp(1), Math.cbrt(2), (1234.5678).toFixed(2), (255).toString(36)],
    intl: [
      new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" }).format(1234.5),
      new Intl.DateTimeFormat("en-US", { dateStyle: "full", timeStyle: "long" }).format(),
      new Intl.PluralRules("ar").select(3),
      new Intl.ListFormat("fr").format(["a", "b", "c"]),
      new Intl.RelativeTimeFormat("en").format(-1, "day"),
      ["z", "a", "\\u00e4"].sort(new Intl.Collator("sv").compare).join(),
      [...new Intl.Segmenter("en", { granularity: "word" }).segment("Hello, world")].length,
      (1234.5).toLocaleString(), new Date(0).toLocaleString(),
    ],
    language: [
      [3, 1, 2].toSorted().join(), Object.groupBy([1, 2, 3], (n) => (n % 2 ? "odd" : "even")) as object,
      [..."a1b2".matchAll(/\\d/g)].map((m) => m.index), "\\u{1F600}".length, (10n ** 20n).toString(),
      [...(function* () { yield 1; yield 2; })()], JSON.stringify({ a: undefined, b: NaN }), new Error("e").stack,
    ],
  };
}
"""

_LOOP = 'import { g } from "rewind:tools";\nexport default async function main() {\n  await g.echo({ n: 1 });\n  for (;;);\n}\n'
_HOARD = "export default async function main() {\n  const kept: unknown[] = [];\n  for (;;) kept.push(new ArrayBuffer(2 ** 20));\n}\n"
_WAITS = """
import { sleep } from "rewind";
import { g } from "rewind:tools";
export default async function main() {
  try {
    await sleep("10d");
  } finally {
    await g.echo({ cleaned: true });
  }
}
"""
_THROWS = """
import { g } from "rewind:tools";
export default async function main() {
  void g.echo({ forgotten: true });
  throw new TypeError("no", { cause: new RangeError("because") });
}
"""
_ECHO = {"g.echo": [{"result": {"ok": True}, "repeat": True}]}

RECIPES = {
    "kinds": Recipe(
        _KINDS,
        tools=("g.echo", "g.slow", "g.fail"),
        gated=("gate.open", "gate.close"),
        input={"n": 7},
        mocks=_ECHO
        | {
            "g.slow": [{"result": 1, "after": "1h"}],
            "g.fail": [{"error": {"code": "odd", "message": "it failed"}}],
            "gate.open": [{"result": "opened"}],
        },
        signals=[{"name": "answer", "payload": {"yes": True}, "at": "1h"}],
        approvals={"gate.open": "approved", "gate.close": "denied"},
    ),
    "built-ins": Recipe(_BUILT_INS),
    "failed": Recipe(_THROWS, tools=("g.echo",), mocks=_ECHO),
    "deadlock": Recipe("export default async function main() { await new Promise(() => {}); }\n"),
    "cancelled": Recipe(_WAITS, tools=("g.echo",), mocks=_ECHO, cancel_at=60_000),
    "aborted-cpu": Recipe(_LOOP, tools=("g.echo",), mocks=_ECHO, limits=Limits(cpu_ms_per_event=200)),
    "aborted-heap": Recipe(_HOARD),
}
