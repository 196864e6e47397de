import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = await github.list_issues({ repo: input.repo });
  return issues.sort((a, b) => new Date(a.updated_at) - new Date(b.updated_at));
}
