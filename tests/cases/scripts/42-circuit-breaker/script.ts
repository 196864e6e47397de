import { sleep, ToolError } from "rewind";
import { svc } from "rewind:tools";

class Open extends Error { constructor(readonly_until: number) { super(`open until ${readonly_until}`); this.until = readonly_until; } override readonly name = "Open"; readonly until: number; }
class Breaker {
  private failures = 0;
  private openUntil = 0;
  protected readonly max: number;
  readonly coolMs: number;
  constructor({ max = 2, coolMs = 10_000 }: Partial<{ max: number; coolMs: number }> = {}) { this.max = max; this.coolMs = coolMs; }
  async call<A extends unknown[], R>(fn: (...args: A) => Promise<R>, ...args: A): Promise<R> {
    if (Date.now() < this.openUntil) throw new Open(this.openUntil - Date.now());
    try {
      const r = await fn(...args);
      this.failures = 0;
      return r;
    } catch (e) {
      if (++this.failures >= this.max) this.openUntil = Date.now() + this.coolMs;
      throw e;
    }
  }
}

export default async function main(input: { ids: number[] }) {
  const breaker = new Breaker({ coolMs: 5_000 });
  const out: string[] = [];
  for (const id of input.ids) {
    try {
      const { v } = await breaker.call(svc.get, { id });
      out.push(`${id}=${v}`);
    } catch (e) {
      if (e instanceof Open) { out.push(`${id} ${e.name} ${e.until}`); await sleep(e.until); }
      else if (e instanceof ToolError) out.push(`${id} ${e.code} ${e.message}`);
      else throw e;
    }
  }
  return out;
}
