import { github } from "rewind:tools";

export default async function main(input: { repo: string; all: boolean }) {
  const query = { repo: input.repo, state: input.all ? "all" : "open" };
  let state = "open";
  await github.list_issues({ repo: input.repo, state });
  return await github.list_issues(query);
}
