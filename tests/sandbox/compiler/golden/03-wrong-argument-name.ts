import { github } from "rewind:tools";

export default async function main(input: { repository: string }) {
  return await github.list_issues({ repository: input.repository, state: "open" });
}
