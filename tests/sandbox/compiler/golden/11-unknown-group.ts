import { githib, jira } from "rewind:tools";

export default async function main(input: { repo: string }) {
  await jira.create({ title: "x" });
  return await githib.list_issues({ repo: input.repo });
}
