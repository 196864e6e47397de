import { retry, ToolError, sleep } from "rewind";
import { bank } from "rewind:tools";

const isTransient = (e: unknown) => e instanceof ToolError && ["rate_limited", "timeout", "busy"].includes(e.code);

export default async function main(input: { accounts: string[] }) {
  const tries: Record<string, number> = {};
  const t0 = Date.now();
  const balances = await Promise.all(
    input.accounts.map((account) =>
      retry(
        async (attempt) => {
          tries[account] = attempt;
          const { cents } = await bank.balance({ account });
          return BigInt(cents);
        },
        { attempts: 4, backoff: (n) => `${n * 2}s`, on: isTransient },
      ).catch((e: unknown) => {
        if (e instanceof ToolError) return `${e.tool}/${e.code}: ${e.message}`;
        throw e;
      }),
    ),
  );
  const known = balances.filter((b): b is bigint => typeof b === "bigint");
  const total = known.reduce((a, b) => a + b, 0n);
  await sleep("PT1M30S");
  await bank.report({ total: total.toString(), euros: Number(total / 100n), minutes: Math.floor((Date.now() - t0) / 60_000) });
  return { total: `${total}`, failed: balances.filter((b) => typeof b === "string"), tries };
}
