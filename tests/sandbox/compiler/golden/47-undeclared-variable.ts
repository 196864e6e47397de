import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = await github.list_issues({ repo: input.repo });
  for (const issue of isues) console.log(issue.title);
  return count;
}
