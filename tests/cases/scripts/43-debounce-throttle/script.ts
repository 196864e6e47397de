import { sleep } from "rewind";
import { save } from "rewind:tools";

function debounce<F extends (...args: any[]) => void>(fn: F, ms: number) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (...args: Parameters<F>) => { clearTimeout(timer); timer = setTimeout(() => fn(...args), ms); };
}
function throttle<T>(fn: (x: T) => void, ms: number): (x: T) => void {
  let last = -Infinity;
  return (x) => { const now = Date.now(); if (now - last >= ms) { last = now; fn(x); } };
}
const defer = <T,>() => { let resolve!: (v: T) => void; let reject!: (e: unknown) => void; const promise = new Promise<T>((a, b) => { resolve = a; reject = b; }); return { promise, resolve, reject }; };

export default async function main() {
  const saved: string[] = [];
  const done = defer<string>();
  const persist = debounce(async (text: string) => { const { rev } = await save({ text }); saved.push(`${text}@${rev}`); if (rev === 2) done.resolve("two"); }, 300);
  const ticks: number[] = [];
  const tick = throttle((n: number) => ticks.push(n), 250);
  for (let i = 0; i < 5; i++) { persist(`v${i}`); tick(i); await sleep(100); }
  await sleep(500);
  persist("last");
  const which = await Promise.race([done.promise, sleep(10_000).then(() => "late")]);
  let fired = 0;
  const once = setTimeout(() => fired++, 50);
  clearTimeout(once);
  const nested = await new Promise<number>((r) => setTimeout(() => setTimeout((n: number) => r(n + 1), 10, 41), 10));
  queueMicrotask(() => fired += 10);
  await null;
  return { saved, ticks, which, fired, nested };
}
