import { github } from "rewind:tools";
async function run_it(input: { repo: string }) {
  return await github.list_issues({ repo: input.repo });
}
