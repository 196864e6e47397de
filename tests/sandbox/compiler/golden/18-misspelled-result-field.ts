import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = await github.list_issues({ repo: input.repo });
  return issues.filter((issue) => issue.updatedAt < "2026-01-01").map((issue) => issue.titel);
}
