import { sleep, waitForSignal } from "rewind";
import { close_issue, tracker } from "rewind:tools";

type Issue = { number: number; title: string; updated_at: string; labels: string[] };
type Decision = { close: boolean; by: string };

// Close the issues that nobody has touched since `before`, once a maintainer has agreed.
export default async function main(input: { repo: string; before: string }) {
  const issues: Issue[] = [];
  for (let page = 1; ; page++) {
    const found = await tracker.list_issues({ repo: input.repo, page });
    issues.push(...found.issues);
    if (!found.more) break;
  }
  const old = issues.filter((issue) => issue.updated_at < input.before && !issue.labels.includes("keep"));

  // One call per issue, all at the same time.
  const threads = await Promise.all(
    old.map((issue) => tracker.read_comments({ repo: input.repo, number: issue.number })),
  );
  const stale = old.filter((_, i) => !threads[i]?.comments.some((text) => text.includes("still happens")));
  console.log(`${stale.length} of ${issues.length} issues are stale`);

  await sleep("2s"); // "10d" works as well: nothing runs while a script sleeps
  const decision = await waitForSignal<Decision>("decision", { timeout: "1h" });
  if (!decision?.close) return { closed: [], stale: stale.length, decided_by: decision?.by ?? "nobody" };

  const closed: string[] = [];
  for (const issue of stale) {
    const done = await close_issue({ repo: input.repo, number: issue.number, reason: "no activity" });
    closed.push(`#${done.number} ${issue.title}`);
  }
  return { closed, stale: stale.length, decided_by: decision.by };
}
