// ATTACK: Promise.resolve, Promise.all, Promise.prototype.catch/finally, constructor and Symbol.species replaced
// RIGHT: completed; calls, sleeps and retry work whatever became of Promise.
import { sleep, retry } from "rewind";
import { probe } from "rewind:tools";
export default async function main() {
  const real = { resolve: Promise.resolve, all: Promise.all, c: Promise.prototype.catch, f: Promise.prototype.finally };
  let n = 0;
  (Promise as any).resolve = () => { n++; return { then() {} }; };
  (Promise as any).all = () => { n++; return new Promise(() => {}); };
  (Promise.prototype as any).catch = function () { n++; return this; };
  (Promise.prototype as any).finally = function () { n++; return this; };
  Object.defineProperty(Promise.prototype, "constructor", { value: class { constructor() { n += 100; } }, configurable: true, writable: true });
  Object.defineProperty(Promise, Symbol.species, { value: class { constructor() { n += 1000; } }, configurable: true });
  const v = await retry(() => probe.echo({ value: 1 }));
  await sleep(1);
  Object.assign(Promise, { resolve: real.resolve, all: real.all });
  Object.defineProperty(Promise.prototype, "constructor", { value: Promise, configurable: true, writable: true });
  Object.defineProperty(Promise, Symbol.species, { value: Promise, configurable: true });
  Promise.prototype.catch = real.c; Promise.prototype.finally = real.f;
  return { v, low: n < 100 };
}
