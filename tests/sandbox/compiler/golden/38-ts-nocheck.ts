// @ts-nocheck
import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  // @ts-ignore
  return await github.list_issues({ repo: input.repo, limit: 10 });
}
