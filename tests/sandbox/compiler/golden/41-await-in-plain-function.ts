import { github } from "rewind:tools";

export default async function main(input: { repo: string; numbers: number[] }) {
  input.numbers.forEach((number) => {
    await github.close_issue({ repo: input.repo, number });
  });
}
