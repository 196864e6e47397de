import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const result = await github.list_issues({ repo: input.repo });
  return result.issues.length + result.content[0].text.length;
}
