import { sleep } from "rewind";
import { feed } from "rewind:tools";

class Ticker extends EventTarget {
  count = 0;
  async start(times: number, gap: number) {
    for (let i = 0; i < times; i++) {
      await sleep(gap);
      const { price } = await feed.price({ symbol: "X" });
      this.count++;
      this.dispatchEvent(Object.assign(new Event("tick"), { price }));
    }
    this.dispatchEvent(new Event("end"));
  }
}

export default async function main() {
  const t = new Ticker();
  const prices: number[] = [];
  const alarms: string[] = [];
  const stop = new AbortController();
  t.addEventListener("tick", (e) => {
    const price = (e as Event & { price: number }).price;
    prices.push(price);
    if (price > 100) { alarms.push(`high ${price}`); stop.abort(); }
  }, { signal: stop.signal });
  t.addEventListener("tick", { handleEvent: () => void alarms.push("any") }, { once: true });
  const ended = new Promise<void>((r) => t.addEventListener("end", () => r()));
  const { promise, resolve } = Promise.withResolvers<string>();
  setTimeout(resolve, 2500, "half");
  void t.start(5, 1000);
  alarms.push(await promise);
  await ended;
  return { prices, alarms, count: t.count, aborted: stop.signal.aborted, reason: (stop.signal.reason as DOMException).name };
}
