import { feeds } from "rewind:tools";

type Constructor<T = object> = new (...args: any[]) => T;
const Timestamped = <B extends Constructor>(Base: B) => class extends Base { readonly at = new Date(0).toISOString(); };
class Plain { kind = "plain"; }
class Stamped extends Timestamped(Plain) { #secret = 1; static count = 0; static { Stamped.count = 2; } get secret() { return this.#secret; } static is(x: object): x is Stamped { return #secret in x; } }

class Feed implements AsyncIterable<string> {
  constructor(url: string) { this.url = url; }
  private readonly url: string;
  [Symbol.asyncIterator](): AsyncIterator<string> {
    let page = 0;
    const { url } = this;
    return {
      async next() {
        page++;
        const { item } = await feeds.fetch({ url, page });
        return item === null ? { done: true, value: undefined } : { done: false, value: item };
      },
      async return(value?: unknown) { await feeds.done({ url, page }); return { done: true, value: value as undefined }; },
    };
  }
}

async function* take<T>(n: number, it: AsyncIterable<T>): AsyncGenerator<T> { if (n <= 0) return; let i = 0; for await (const x of it) { yield x; if (++i >= n) return; } }
async function* map<T, U>(it: AsyncIterable<T>, f: (t: T, i: number) => U | Promise<U>) { let i = 0; for await (const x of it) yield await f(x, i++); }
const collect = async <T,>(it: AsyncIterable<T>) => { const out: T[] = []; for await (const x of it) out.push(x); return out; };

export default async function main(input: { url: string }) {
  const two = await collect(map(take(2, new Feed(input.url)), async (x, i) => `${i}:${x.toUpperCase()}`));
  const all = await collect(new Feed(input.url + "/all"));
  const mixed: unknown[] = [];
  for await (const x of [Promise.resolve(1), 2, feeds.fetch({ url: "x", page: 9 }).then((r) => r.item)]) mixed.push(x);
  const total = await [1, 2, 3].reduce(async (acc, n) => (await acc) + n, Promise.resolve(0));
  const s = new Stamped();
  return { two, all, mixed, total, s: { ...s }, secret: s.secret, is: [Stamped.is(s), Stamped.is({})], count: Stamped.count };
}
