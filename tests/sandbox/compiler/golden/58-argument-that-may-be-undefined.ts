import { github } from "rewind:tools";

export default async function main(input: { repo?: string }) {
  return await github.list_issues({ repo: input.repo });
}
