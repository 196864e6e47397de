import { sql } from "rewind:tools";

type Row = Record<string, string | number | null>;
const query = (strings: TemplateStringsArray, ...values: (string | number | null)[]) => sql.query({ text: strings.reduce((acc, s, i) => acc + (i ? `$${i}` : "") + s, "").replace(/\s+/g, " ").trim(), values });
const withDefaults = <T extends object>(target: T, fallback: (key: string) => unknown): T => new Proxy(target, { get: (t, k, r) => (typeof k === "string" && !(k in t) ? fallback(k) : Reflect.get(t, k, r)), has: () => true });
class Temperature { constructor(c: number) { this.c = c; } private c: number; [Symbol.toPrimitive](hint: string) { return hint === "string" ? `${this.c}°C` : this.c; } get [Symbol.toStringTag]() { return "Temperature"; } static from({ f }: { f: number }) { return new Temperature(((f - 32) * 5) / 9); } }
const memo = <A, R>(fn: (a: A) => R) => { const cache = new Map<A, R>(); return (a: A): R => { if (!cache.has(a)) cache.set(a, fn(a)); return cache.get(a)!; }; };
const compose = <T,>(...fns: ((x: T) => T)[]) => (x: T) => fns.reduceRight((v, f) => f(v), x);

export default async function main({ city, min: { temp = 10, unit } = { temp: 10, unit: "C" }, ...rest }: { city: string; min?: { temp?: number; unit: "C" | "F" }; [extra: string]: unknown }) {
  const { rows }: { rows: Row[] } = await query`
    select name, temp from readings
    where city = ${city} and temp > ${temp}
    order by ${null}`;
  const settings = withDefaults({ retries: 1 } as Record<string, unknown>, (k) => `default:${k}`);
  const t = Temperature.from({ f: 212 });
  let calls = 0;
  const slow = memo((n: number) => { calls++; return n ** 2; });
  const [a, , b = "none", ...others] = rows.map((r) => r["name"]);
  const swap = { x: 1, y: 2 };
  [swap.x, swap.y] = [swap.y, swap.x];
  const nullish = rest["none"] ?? 0;
  let or = ""; or ||= "filled"; let and: string | null = "x"; and &&= "y";
  return { unit, rest, a, b, others, retries: settings["retries"], other: settings["other"], str: `${t}`, num: +t + 1, tag: Object.prototype.toString.call(t), memo: [slow(3), slow(3), calls], composed: compose<number>((x) => x + 1, (x) => x * 2)(5), swap, nullish, or, and, raw: String.raw`\n${1}`, opt: rows[9]?.["name"]?.toString() ?? "nothing", del: delete (swap as { x?: number }).x && Object.keys(swap), typeofs: [typeof null, typeof undefined, typeof 1n, typeof Symbol()], chained: 1 < 2 === true };
}
