import { ToolError } from "rewind";
import { inv } from "rewind:tools";

// One of three reservations fails: release those that were made, also the one that arrives late.
export default async function main(input: { skus: string[] }) {
  const held: string[] = [];
  const reserve = async (sku: string) => {
    const { hold } = await inv.reserve({ sku });
    held.push(hold);
    return hold;
  };
  const all = input.skus.map(reserve);
  try {
    const holds = await Promise.all(all);
    return { ok: true, holds };
  } catch (e) {
    if (!(e instanceof ToolError)) throw e;
    const atFailure = held.length;
    await Promise.allSettled(all);
    const released: string[] = [];
    for (const hold of held.toReversed()) released.push((await inv.release({ hold })).status);
    return { ok: false, code: e.code, retryable: e.retryable, data: e.data, tool: e.tool, atFailure, released };
  }
}
