// ATTACK: setters and getters on prototypes that a runtime might use for its own bookkeeping
// RIGHT: completed; no setter runs, and of the getters only those of options that a script may leave out (`timeout`, `signal`); every value arrives.
import { sleep, waitForSignal, retry } from "rewind";
import { probe } from "rewind:tools";
export default async function main() {
  const hits = new Map<string, number>(), { set: put } = Map.prototype, call = Reflect.apply;
  const trap = (o: object, k: PropertyKey, label: string) => Object.defineProperty(o, k, { __proto__: null as any, configurable: true, get() { call(put, hits, [`get ${label}`, 1]); return undefined; }, set(_v) { call(put, hits, [`set ${label}`, 1]); } });
  for (const k of ["0", "1", "2"]) trap(Array.prototype, k, `Array[${k}]`);
  for (const k of ["type", "call", "resolve", "reject", "value", "result", "error", "callsite", "timer", "name", "message", "cause", "signal", "timeout", "done", "next", "get", "set", "writable", "configurable", "enumerable"]) trap(Object.prototype, k, `Object.${k}`);
  let r: unknown, fail: unknown, slept = false, attempts = 0;
  try {
    r = await probe.echo({ value: [1, 2, 3] });
    fail = await probe.fail({ message: "no" }).then(() => 1, (e: Error) => Object.hasOwn(e, "message"));
    await sleep(5); slept = true;
    await retry(async () => { attempts++; if (attempts < 2) throw 1; }, { backoff: 1 });
    await waitForSignal("x", { timeout: 5 });
  } finally {
    for (const k of ["0", "1", "2"]) delete (Array.prototype as any)[k];
    for (const k of ["type", "call", "resolve", "reject", "value", "result", "error", "callsite", "timer", "name", "message", "cause", "signal", "timeout", "done", "next", "get", "set", "writable", "configurable", "enumerable"]) delete (Object.prototype as any)[k];
  }
  return { r, fail, slept, attempts, hits: [...hits.keys()] };
}
