import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = github.list_issues({ repo: input.repo, state: "open" });
  return issues.map((issue) => issue.title);
}
