import { github } from "rewind:tools";

export default async function main(input: { repo: string; number: string }) {
  return await github.close_issue({ repo: input.repo, number: input.number });
}
