import { api } from "rewind:tools";

class PipelineError extends Error {
  override readonly name = "PipelineError";
  readonly stage: string;
  constructor(stage: string, cause: unknown) {
    super(`${stage} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.stage = stage;
  }
}
const stage = async <T,>(name: string, fn: () => Promise<T>): Promise<T> => {
  console.debug("begin", name);
  try { return await fn(); } catch (e) { console.error("failed", name); throw new PipelineError(name, e); }
};

export default async function main(input: { src: string }) {
  const rows = await stage("extract", () => api.extract({ src: input.src }));
  const clean = await stage("transform", async () => rows.items.map((r) => ({ ...r, n: Number(r.n) })).filter((r) => Number.isFinite(r.n)));
  return await stage("load", async () => {
    const { accepted } = await api.load({ items: clean });
    if (accepted !== clean.length) throw new RangeError(`accepted ${accepted} of ${clean.length}`);
    return accepted;
  });
}
