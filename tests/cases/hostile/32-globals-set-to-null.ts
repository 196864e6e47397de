// ATTACK: overwrite globals that a wrapper may use: globalThis, Object, Array, Promise, Date, Math, undefined
// RIGHT: completed; calls, sleeps and errors work without any global of the script's.
import { sleep } from "rewind";
import { probe } from "rewind:tools";
export default async function main() {
  const g: any = globalThis;
  void [g.TextEncoder, g.URL, g.crypto];
  const keep: Record<string, any> = {};
  for (const k of ["Object", "Array", "Promise", "Date", "Math", "JSON", "Map", "Set", "WeakMap", "Symbol", "Reflect", "Proxy", "String", "Number", "Error", "TypeError", "setTimeout", "queueMicrotask", "structuredClone", "console", "crypto", "Function", "RegExp", "Uint8Array", "TextEncoder", "isNaN", "parseInt", "AbortController", "AbortSignal", "EventTarget", "Event"]) { keep[k] = g[k]; try { g[k] = k === "Promise" ? keep[k] : null; } catch { /* frozen is fine */ } }
  const r = await probe.echo({ value: { a: [1, "x"] } });
  await sleep(5);
  const e = await probe.fail({ message: "bad" }).catch((x: any) => `${x.name} ${x.message}`);
  for (const k in keep) g[k] = keep[k];
  let sealed = "no"; try { Object.freeze(globalThis); sealed = "frozen"; } catch (x) { sealed = (x as Error).name; }
  const again = await probe.echo({ value: 2 });
  return { r, e, sealed, again, argsThis: (function (this: unknown) { return typeof this; })(), mod: typeof g.module, self: typeof g.self, top: Object.keys(g).length };
}
