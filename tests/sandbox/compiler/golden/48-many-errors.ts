import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const a = await github.list_issue({ repo: input.repo });
  const b = await github.list_issue({ repo: input.repo });
  const c = await github.close_issues({ repo: input.repo });
  const d = await github.comment({ repo: input.repo });
  const e = await github.list_issues({ repository: input.repo });
  const f = await github.list_issues({ repository: input.repo });
  const g = await github.list_issues({ repo: input.repos });
  const h = await github.list_issues({ repo: input.repos });
  const i = await github.list_issues({ repo: 5 });
  const j = await github.list_issues({ repo: null });
  const k = await github.list_issues({ repo: undefined });
  const l = await github.list_issues({ repo: {} });
  const m = await github.list_issues({ repo: [] });
  const n = await github.list_issues({ repo: true });
  return [a, b, c, d, e, f, g, h, i, j, k, l, m, n];
}
