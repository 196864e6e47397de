import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = await github.list_issues({ repo: input.repo });
  return issues.filter((issue) => issue.state === "OPEN" || issue.labels === "bug");
}
