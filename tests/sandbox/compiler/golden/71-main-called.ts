import { github } from "rewind:tools";
async function main(input: { repo: string }) {
  return await github.list_issues({ repo: input.repo });
}
main({ repo: "a" }).then(console.log);
