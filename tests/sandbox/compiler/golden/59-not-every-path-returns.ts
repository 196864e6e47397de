import { github } from "rewind:tools";

export default async function main(input: { repo: string }): Promise<string> {
  const issues = await github.list_issues({ repo: input.repo });
  if (issues.length > 0) return issues[0].title;
}
