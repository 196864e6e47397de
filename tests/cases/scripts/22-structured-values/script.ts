import { store } from "rewind:tools";

interface Node { id: string; tags: Set<string>; meta: Map<string, Date>; parent?: Node; bytes: Uint8Array }

const encode = (n: Node): Record<string, unknown> => ({
  id: n.id,
  tags: [...n.tags].toSorted(),
  meta: Object.fromEntries([...n.meta].map(([k, v]) => [k, v.toISOString()] as const)),
  hex: Array.from(n.bytes, (b) => b.toString(16).padStart(2, "0")).join(""),
  parent: n.parent?.id ?? null,
});

export default async function main(input: { text: string }) {
  const bytes = new TextEncoder().encode(input.text);
  const root: Node = { id: "root", tags: new Set(["b", "a"]), meta: new Map([["made", new Date(0)]]), bytes };
  root.parent = root;
  const copy = structuredClone(root);
  copy.id = "copy";
  copy.tags.add("c");
  copy.meta.set("copied", new Date("2026-01-15T09:00:00+02:00"));
  const same = copy.parent === copy;
  copy.parent = root;
  const saved = await store.put({ key: "nodes", value: [root, copy].map(encode) });
  const b64 = btoa(String.fromCharCode(...bytes));
  const back = new TextDecoder().decode(Uint8Array.from(atob(b64), (c) => c.charCodeAt(0)));
  const url = new URL("/v1/items?b=2&a=1#frag", "https://user@example.com:8443/base/");
  url.searchParams.append("q", "ä ö&ü");
  url.searchParams.sort();
  const grouped = Object.groupBy([1, 2, 3, 4, 5], (n) => (n % 2 ? "odd" : "even"));
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat32(0, Math.PI);
  return { version: saved.version, same, b64, ok: back === input.text, url: url.href, host: url.host, q: url.searchParams.get("q"), grouped, pi: view.getUint32(0).toString(16), at: [1, 2, 3].at(-1), last: [5, 1, 9].findLast((n) => n < 9), with: [1, 2].with(0, 7), flat: [[1, [2]], [3]].flat(Infinity) };
}
