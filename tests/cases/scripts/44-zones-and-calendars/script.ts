import { cal } from "rewind:tools";

const parts = (d: Date, timeZone: string) => Object.fromEntries(new Intl.DateTimeFormat("en-CA", { timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).formatToParts(d).filter((p) => p.type !== "literal").map(({ type, value }) => [type, value]));
const isWeekend = (d: Date) => [0, 6].includes(d.getUTCDay());
function addBusinessDays(d: Date, n: number) { const r = new Date(d); while (n > 0) { r.setUTCDate(r.getUTCDate() + 1); if (!isWeekend(r)) n--; } return r; }
const week = (d: Date) => { const t = new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate())); t.setUTCDate(t.getUTCDate() + 4 - (t.getUTCDay() || 7)); return Math.ceil(((t.valueOf() - Date.UTC(t.getUTCFullYear(), 0, 1)) / 864e5 + 1) / 7); };

export default async function main(input: { at: string[]; zone: string }) {
  const rows = input.at.map((s) => {
    const d = new Date(s);
    if (Number.isNaN(d.getTime())) return { s, bad: true };
    const p = parts(d, input.zone);
    return { s, local: `${p["year"]}-${p["month"]}-${p["day"]} ${p["hour"]}:${p["minute"]}`, week: week(d), due: addBusinessDays(d, 3).toISOString().slice(0, 10) };
  });
  const first = new Date(input.at[0]!);
  await cal.hold({ from: first.toISOString(), until: new Date(+first + 90 * 60_000).toISOString() });
  return {
    rows,
    us: first.toLocaleString("en-US", { timeZone: "America/New_York", dateStyle: "medium", timeStyle: "short" }).replace(/\u202f/g, " "),
    de: first.toLocaleDateString("de-DE", { weekday: "long", day: "numeric", month: "long", timeZone: "Europe/Berlin" }),
    utc: first.toUTCString(), json: JSON.stringify({ d: first }), month: new Date(Date.UTC(2024, 1, 30)).toISOString().slice(0, 10), diff: Math.round((Date.parse("2026-03-30T00:00:00Z") - Date.parse("2026-03-28")) / 36e5),
  };
}
