import { github, slack } from "rewind:tools";

// Written without looking at the types at all.
export default async function main(input: any) {
  const prs: any = await github.list_pull_requests({ owner: input.owner, repo: input.repo });
  const summary: any[] = [];
  for (const pr of prs.items || prs || []) {
    let files;
    try {
      files = await github.list_files({ owner: input.owner, repo: input.repo, number: pr.number });
    } catch (error: any) {
      console.error(`Failed to list files for #${pr.number}:`, error.message);
      continue;
    }
    const additions = files.items.reduce((sum: number, f: any) => sum + (f.additions || 0), 0);
    summary.push({ number: pr.number, title: pr.title, additions, author: pr.user?.login ?? "unknown" });
  }
  summary.sort((a, b) => b.additions - a.additions);
  const text = summary.map((s, i) => `${i + 1}. #${s.number} ${s.title} (+${s.additions}) by @${s.author}`).join("\n");
  if (text) await slack.post_message({ channel: input.channel, text });
  return { success: true, count: summary.length, text };
}
