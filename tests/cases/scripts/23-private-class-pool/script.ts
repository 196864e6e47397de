import { images } from "rewind:tools";

class Semaphore {
  #free: number;
  #queue: Array<() => void> = [];
  static readonly MAX = 64;
  static #made = 0;
  static { this.#made = 0; }
  constructor(free: number) {
    this.#free = Math.min(free, Semaphore.MAX);
    Semaphore.#made++;
  }
  static get made() { return this.#made; }
  async acquire(): Promise<() => void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#queue.push(resolve));
    let released = false;
    return () => {
      if (released) return;
      released = true;
      const next = this.#queue.shift();
      next ? next() : this.#free++;
    };
  }
  async run<T>(fn: () => Promise<T>): Promise<T> {
    const release = await this.acquire();
    try { return await fn(); } finally { release(); }
  }
  get waiting(): number { return this.#queue.length; }
}

abstract class Task<R> {
  constructor(readonly_id: string) { this.id = readonly_id; }
  protected readonly id: string;
  abstract execute(): Promise<R>;
  toString(): string { return `${this.constructor.name}#${this.id}`; }
}

class Resize extends Task<{ url: string; width: number }> {
  declare extra?: string;
  attempts = 0;
  async execute() {
    this.attempts += 1;
    const r = await images.resize({ id: this.id, width: 320 });
    if (!r.ok) throw new Error(`${this}: ${r.reason ?? "unknown"}`);
    return { url: r.url!, width: 320 };
  }
}

export default async function main({ ids, width = 2 }: { ids: string[]; width?: number }) {
  const gate = new Semaphore(width);
  let peak = 0, live = 0;
  const results = await Promise.allSettled(ids.map((id) => new Resize(id)).map((task) => gate.run(async () => {
    peak = Math.max(peak, ++live);
    try { return await task.execute(); } finally { live--; }
  })));
  const [good, bad] = results.reduce<[string[], string[]]>(([g, b], r) => r.status === "fulfilled" ? [[...g, r.value.url], b] : [g, [...b, r.reason.message as string]], [[], []]);
  return { good, bad, peak, waiting: gate.waiting, made: Semaphore.made };
}
