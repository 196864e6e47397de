import { github } from "rewind:tools";
import { run } from "rewind";

export default async function main() {
  return await github.list_issues({ repo: run.input.repo });
}
