import { github } from "rewind:tools";

export default async function main(input: {}) {
  return await github.list_issues({ repo: input.repo });
}
