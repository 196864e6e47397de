import { github } from "rewind:tools";

export default async function main(input: { repo: string; numbers: number[] }) {
  const closed = input.numbers.map((number) => github.close_issue({ repo: input.repo, number }));
  return closed.filter((one) => one.closed).length;
}
