import { callTool } from "rewind";

export default async function main(input: { repo: string }) {
  return await callTool("github.list_issues", { repo: input.repo });
}
