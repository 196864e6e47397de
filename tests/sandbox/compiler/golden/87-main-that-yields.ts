import { github } from "rewind:tools";

export default async function* main(input: { repo: string }) {
  for (const issue of await github.list_issues({ repo: input.repo })) yield issue.title;
}
