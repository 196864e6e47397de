import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const issues = await github.list_issues({ repo: input.repo });
  for (const i in issues) { console.log(i.title); }
  return len(issues);
}
