import { list_issues } from "rewind:tools";

export default async function main(input: { repo: string }) {
  return await list_issues({ repo: input.repo });
}
