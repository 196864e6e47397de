import { jobs } from "rewind:tools";

// A poller as written for browsers: setInterval, an in-flight guard, and a promise around it.
function poll<T>(every: number, limit: number, probe: (tick: number) => Promise<T | undefined>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    let ticks = 0;
    let busy = false;
    const timer = setInterval(async () => {
      if (busy) return;
      busy = true;
      ticks += 1;
      try {
        const value = await probe(ticks);
        if (value !== undefined) {
          clearInterval(timer);
          resolve(value);
        } else if (ticks >= limit) {
          clearInterval(timer);
          reject(new Error(`gave up after ${ticks} polls`));
        }
      } catch (error) {
        clearInterval(timer);
        reject(error);
      } finally {
        busy = false;
      }
    }, every);
  });
}

export default async function main({ job, every, limit }: { job: string; every: number; limit: number }) {
  const started = performance.now();
  const seen: string[] = [];
  const result = await poll(every, limit, async (tick) => {
    const { state, percent = 0, url } = await jobs.status({ job });
    seen.push(`${tick}:${state}:${percent.toFixed(1)}%`);
    return state === "done" ? url : undefined;
  });
  const second = await poll(every * 2, 2, async () => (await jobs.status({ job: "never" })).url).catch((e: unknown) => (e as Error).message);
  return { result, seen, second, elapsed: performance.now() - started >= every * 3 };
}
