import { github } from "rewind:tools";

export default async function main(repo: string, days: number) {
  return await github.list_issues({ repo });
}
