import { fs } from "rewind:tools";

const log: string[] = [];
async function withFile<T>(path: string, use: (h: { id: number }) => Promise<T>): Promise<T> {
  const handle = await fs.open({ path });
  try {
    return await use(handle);
  } catch (e) {
    log.push(`caught ${(e as Error).message}`);
    throw new Error(`using ${path}`, { cause: e });
  } finally {
    await fs.close({ id: handle.id });
    log.push(`closed ${handle.id}`);
  }
}

function* counted() {
  try { yield 1; yield 2; } finally { log.push("generator done"); }
}

async function overridden(): Promise<string> {
  try { throw new Error("lost"); } finally { return "from finally"; }
}

export default async function main(input: { a: string; b: string }) {
  const one = await withFile(input.a, async ({ id }) => (await fs.read({ id })).text);
  let two: unknown;
  try {
    await withFile(input.a, async () => withFile(input.b, async () => { throw new RangeError("inside"); }));
  } catch (e) {
    const err = e as Error & { cause?: Error & { cause?: Error } };
    two = [err.message, err.cause?.message, err.cause?.cause?.name];
  }
  for (const n of counted()) { if (n === 1) break; }
  const three = await overridden();
  const four = await Promise.reject(42).catch((x: unknown) => `not an error: ${x}`).finally(() => { log.push("finally"); });
  label: { log.push("before"); if (log.length > 3) break label; log.push("never"); }
  return { one, two, three, four, log };
}
