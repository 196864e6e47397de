import { repo } from "rewind:tools";

function* chunks<T>(xs: Iterable<T>, size: number): Generator<T[], number, unknown> {
  let buf: T[] = [];
  let n = 0;
  for (const x of xs) {
    buf.push(x);
    if (buf.length === size) { yield buf; n++; buf = []; }
  }
  if (buf.length) { yield buf; n++; }
  return n;
}

async function* walk(path: string, depth = 0): AsyncGenerator<{ path: string; depth: number }> {
  const { entries } = await repo.list({ path });
  for (const e of entries) {
    const full = `${path === "/" ? "" : path}/${e.name}`;
    if (e.dir) yield* walk(full, depth + 1);
    else yield { path: full, depth };
  }
}

class Range implements Iterable<number> {
  constructor(from: number, to: number) { this.from = from; this.to = to; }
  private from: number;
  private to: number;
  *[Symbol.iterator]() { for (let i = this.from; i < this.to; i++) yield i; }
}

export default async function main(input: { root: string }) {
  const files: string[] = [];
  outer: for await (const { path, depth } of walk(input.root)) {
    for (const part of path.split("/")) if (part.startsWith(".")) continue outer;
    if (depth > 2) break;
    files.push(path);
  }
  const sizes: number[] = [];
  const it = chunks(files, 2);
  let step = it.next();
  while (!step.done) {
    const got = await Promise.all(step.value.map((path) => repo.stat({ path })));
    sizes.push(...got.map((g) => g.bytes));
    step = it.next();
  }
  const squares = [...new Range(1, 6)].map((n) => n ** 2);
  const firstTwo = Iterator.from(new Range(10, 99)).filter((n) => n % 7 === 0).take(2).toArray();
  return { files, sizes, chunks: step.value, squares, firstTwo };
}
