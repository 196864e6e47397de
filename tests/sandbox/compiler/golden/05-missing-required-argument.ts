import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  await github.create_comment({ repo: input.repo, number: 4 });
}
