import { ledger } from "rewind:tools";

const hex = (b: ArrayBuffer) => [...new Uint8Array(b)].map((x) => x.toString(16).padStart(2, "0")).join("");
const sha = async (s: string) => hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(s)));
const stable = (v: unknown): string =>
  Array.isArray(v) ? `[${v.map(stable).join(",")}]`
  : v && typeof v === "object" ? `{${Object.entries(v).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([k, x]) => `${JSON.stringify(k)}:${stable(x)}`).join(",")}}`
  : JSON.stringify(v);

export default async function main(input: { payments: { to: string; cents: number; memo?: string }[] }) {
  const done = new Map<string, string>();
  const keys: string[] = [];
  for (const p of input.payments) {
    const key = (await sha(stable(p))).slice(0, 16);
    keys.push(key);
    if (done.has(key)) continue;
    const { id } = await ledger.pay({ ...p, key });
    done.set(key, id);
  }
  const uuid = crypto.randomUUID();
  const rnd = crypto.getRandomValues(new Uint32Array(4));
  return {
    keys, unique: done.size,
    uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid), rnd: rnd.length, inRange: Math.random() < 1,
    sums: [0.1 + 0.2, 1_000_000 * 3, 0xff, 0b101, 1e3, (1234.5678).toFixed(2), (0.000001234).toPrecision(2), (255).toString(36), Number("0x1f"), parseInt("12px", 10), Math.trunc(-4.7), Math.sign(-3), 7 % -3, -7 % 3, 2 ** 10],
    big: (2n ** 64n - 1n).toString(), asInt: Number(BigInt.asIntN(8, 255n)), div: String(7n / 2n),
  };
}
