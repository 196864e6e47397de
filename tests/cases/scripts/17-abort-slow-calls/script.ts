import { sleep } from "rewind";
import { search } from "rewind:tools";

// Ask three engines, keep the first good answer, abort the rest.
async function firstGood<T>(jobs: ((signal: AbortSignal) => Promise<T>)[], good: (t: T) => boolean): Promise<{ value: T; index: number } | null> {
  const controller = new AbortController();
  try {
    return await new Promise<{ value: T; index: number } | null>((resolve, reject) => {
      let left = jobs.length;
      const errors: unknown[] = [];
      jobs.forEach((job, index) => {
        job(controller.signal).then(
          (value) => {
            if (good(value)) resolve({ value, index });
            else if (--left === 0) resolve(null);
          },
          (err) => {
            errors.push(err);
            if (--left === 0) errors.length === jobs.length ? reject(new AggregateError(errors, "all failed")) : resolve(null);
          },
        );
      });
    });
  } finally {
    controller.abort(new Error("lost the race"));
  }
}

export default async function main(input: { q: string }) {
  const engines = ["alpha", "beta", "gamma"] as const;
  const causes: string[] = [];
  const found = await firstGood(
    engines.map((engine) => (signal: AbortSignal) =>
      search.query({ engine, q: input.q }, { signal }).catch((e: Error) => {
        causes.push(`${engine}: ${e.name} (${(e.cause as Error | undefined)?.message ?? "-"})`);
        throw e;
      }),
    ),
    (r) => r.hits.length > 0,
  );
  await sleep("1m");
  return { engine: found && engines[found.index], hits: found?.value.hits ?? [], causes };
}
