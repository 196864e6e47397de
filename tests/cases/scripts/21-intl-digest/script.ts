import { sales, slack } from "rewind:tools";

const eur = new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" });
const usd = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "2-digit", month: "short", year: "numeric", timeZone: "UTC" });
const list = new Intl.ListFormat("en", { style: "long", type: "conjunction" });
const plural = new Intl.PluralRules("en", { type: "ordinal" });
const suffix: Record<string, string> = { one: "st", two: "nd", few: "rd", other: "th" };
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export default async function main(input: { from: string; days: number }) {
  const lines: string[] = [];
  const start = new Date(`${input.from}T00:00:00Z`);
  for (let i = 0; i < input.days; i++) {
    const d = new Date(start);
    d.setUTCDate(start.getUTCDate() + i);
    const iso = d.toISOString().slice(0, 10);
    const { rows } = await sales.by_day({ date: iso });
    const sum = rows.reduce((n, { amount }) => n + amount, 0);
    const names = [...new Set(rows.map((r) => r.product))].sort((a, b) => a.localeCompare(b, "sv"));
    lines.push(`${day.format(d)}: ${eur.format(sum)} (${usd.format(sum * 1.1)}), ${compact.format(sum * 1000)} — ${names.length ? list.format(names) : "nothing"}`);
  }
  const rank = [1, 2, 3, 4, 11, 21].map((n) => `${n}${suffix[plural.select(n)]}`).join(" ");
  const when = [ago.format(-1, "day"), ago.format(3, "week")].join("; ");
  const local = start.toLocaleDateString("en-US", { month: "long", day: "numeric" }) + " " + start.toLocaleTimeString("en-US");
  await slack.post({ text: lines.join("\n") });
  return { lines, rank, when, local, num: (1234567.891).toLocaleString(), tz: start.getTimezoneOffset(), str: start.toString().slice(0, 24) };
}
