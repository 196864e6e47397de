import * as tools from "rewind:tools";
import { github, linear } from "rewind:tools";

const handlers = {
  issue: (t: string) => linear.create_issue({ title: t, teamId: "ENG" }).then(({ id }) => id),
  pr: async (t: string) => `#${(await github.create_pull_request({ owner: "acme", repo: "x", title: t, head: "h", base: "main" })).number}`,
  note: async (t: string) => { console.log("note:", t); return null; },
} as const satisfies Record<string, (title: string) => Promise<string | null>>;

type Kind = keyof typeof handlers;
const isKind = (k: string): k is Kind => Object.hasOwn(handlers, k);

export default async function main(input: { todo: string[] }) {
  const results = [];
  for (const line of input.todo) {
    const [, kind = "", title = ""] = /^(\w+):\s*(.+)$/.exec(line) ?? [];
    if (!isKind(kind)) { results.push({ line, error: `unknown kind "${kind}"` }); continue; }
    results.push({ kind, ref: await handlers[kind](title) });
  }
  const available = Object.keys(tools).sort();
  return { results, available, fns: Object.keys(github) };
}
