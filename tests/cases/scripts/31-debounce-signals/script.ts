import { waitForSignal } from "rewind";
import { index } from "rewind:tools";

// Collect changes until it has been quiet for 5 minutes or 4 have come; then index them all at once.
export default async function main(input: { batches: number }) {
  const out: string[][] = [];
  while (out.length < input.batches) {
    const pending = new Map<string, number>();
    const first = await waitForSignal<{ file: string }>("changed");
    pending.set(first.file, 1);
    for (;;) {
      const next = await waitForSignal<{ file: string }>("changed", { timeout: "5m" });
      if (next === null) break;
      pending.set(next.file, (pending.get(next.file) ?? 0) + 1);
      if (pending.size >= 4) break;
    }
    const files = [...pending.keys()];
    await index.update({ files });
    out.push([...pending].map(([f, n]) => `${f}x${n}`));
  }
  return out;
}
