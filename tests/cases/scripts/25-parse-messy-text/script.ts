import { docs } from "rewind:tools";

// The tool gives text; pull JSON out of a fenced block, CSV out of another, emails by regex.
function fenced(text: string, lang: string): string | null {
  const m = new RegExp("```" + lang + "\\r?\\n([\\s\\S]*?)```", "u").exec(text);
  return m?.[1] ?? null;
}
const EMAIL = /(?<user>[\p{L}\d._%+-]+)@(?<host>[a-z\d.-]+\.[a-z]{2,})/giu;
const csv = (s: string) => s.trim().split(/\r?\n/).map((l) => [...l.matchAll(/"((?:[^"]|"")*)"|([^,]+)/g)].map((m) => (m[1] ?? m[2] ?? "").replaceAll('""', '"')));

export default async function main(input: { doc: string }) {
  const raw = await docs.read({ id: input.doc });
  const text: string = typeof raw === "string" ? raw : raw.text;
  const json = JSON.parse(fenced(text, "json") ?? "null", (k, v) => (k === "price" ? Math.round(v * 100) : v)) as { items: { sku: string; price: number }[] } | null;
  const [head, ...rows] = csv(fenced(text, "csv") ?? "");
  const people = Array.from(text.matchAll(EMAIL), ({ groups: { user, host } = {} as Record<string, string>, index }) => ({ user, host: host?.toLowerCase(), index }));
  const words = text.toLowerCase().match(/\b[a-z]{4,}\b/g)?.reduce((m, w) => m.set(w, (m.get(w) ?? 0) + 1), new Map<string, number>()) ?? new Map<string, number>();
  const top = [...words].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, 3);
  const table = rows.map((r) => Object.fromEntries(head!.map((h, i) => [h.trim(), r[i] ?? null])));
  const slug = "Ünïcode — Título 42!".normalize("NFD").replace(/\p{Diacritic}/gu, "").toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  await docs.annotate({ id: input.doc, total: json?.items.reduce((n, i) => n + i.price, 0) ?? 0 });
  return { json, table, people, top, slug, sticky: /a(?=b)/y.test("ab"), named: "2026-01-15".replace(/(?<y>\d+)-(?<m>\d+)-(?<d>\d+)/, "$<d>.$<m>.$<y>"), split: "a1b22c".split(/\d+/) };
}
