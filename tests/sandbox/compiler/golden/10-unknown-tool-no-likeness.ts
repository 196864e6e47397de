import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  return await github.merge_pull_request({ repo: input.repo, number: 1 });
}
