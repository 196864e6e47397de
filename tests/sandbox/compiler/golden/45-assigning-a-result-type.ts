import { github } from "rewind:tools";

interface Issue {
  id: number;
  title: string;
  labels: { name: string }[];
}

export default async function main(input: { repo: string }) {
  const issues: Issue[] = await github.list_issues({ repo: input.repo });
  return issues.length;
}
