// ATTACK: freeze or empty every prototype, delete methods
// RIGHT: completed; calls, sleeps, errors and logs work after the script has deleted the methods of the language.
import { sleep } from "rewind";
import { probe } from "rewind:tools";
export default async function main() {
  const all = [Array, Map, Set, Promise, String, Number, RegExp, Date, WeakMap, Error, Function, Object] as any[]; const it = Symbol.iterator;
  for (let j = 0; j < all.length; j++) { const C = all[j];
    const keys = Reflect.ownKeys(C.prototype); for (let i = 0; i < keys.length; i++) { const k = keys[i]!; if (k === "constructor" || (C === Promise && k === "then") || k === it || (C === Function && k === "call") || (C === Array && k === "push")) continue; try { delete C.prototype[k]; } catch { /* ignore */ } }
    try { Object.freeze(C.prototype); } catch { /* ignore */ }
  }
  delete (globalThis as any).Symbol; delete (globalThis as any).JSON;
  const r = await probe.echo({ value: { list: [1, { b: "x" }] } });
  await sleep("1s");
  const ok = await probe.fail({ message: "m" }).then(() => 1, (e: any) => e.message);
  console.log("still", { logging: 1 });
  return { r, ok };
}
