import tools from "rewind:tools";

export default async function main(input: { repo: string }) {
  return await tools.github.list_issues({ repo: input.repo });
}
