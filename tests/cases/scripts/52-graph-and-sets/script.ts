import { pkg } from "rewind:tools";

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

async function crawl(root: string): Promise<Graph> {
  const graph = new Map<string, Set<string>>();
  let frontier = new Set([root]);
  while (frontier.size) {
    const found = await Promise.all([...frontier].map(async (name) => [name, (await pkg.deps({ name })).deps] as const));
    const next = new Set<string>();
    for (const [name, deps] of found) { graph.set(name, new Set(deps)); for (const d of deps) next.add(d); }
    frontier = next.difference(new Set(graph.keys()));
  }
  return graph;
}

function order(graph: Graph): string[] {
  const state = new Map<string, "open" | "done">();
  const out: string[] = [];
  const visit = (n: string, path: readonly string[]): void => {
    if (state.get(n) === "done") return;
    if (state.get(n) === "open") throw new Error(`cycle: ${[...path.slice(path.indexOf(n)), n].join(" → ")}`);
    state.set(n, "open");
    for (const d of [...(graph.get(n) ?? [])].sort()) visit(d, [...path, n]);
    state.set(n, "done");
    out.push(n);
  };
  for (const n of [...graph.keys()].sort()) visit(n, []);
  return out;
}

export default async function main(input: { roots: string[] }) {
  const results: Record<string, unknown> = {};
  for (const r of input.roots) {
    try { results[r] = order(await crawl(r)); } catch (e) { results[r] = (e as Error).message; }
  }
  const a = new Set([1, 2, 3]), b = new Set([2, 3, 4]);
  return { results, union: [...a.union(b)], inter: [...a.intersection(b)], grouped: [...Map.groupBy([1, 2, 3, 4], (n) => n % 2 === 0)].map(([k, v]) => [k, v.length]) };
}
