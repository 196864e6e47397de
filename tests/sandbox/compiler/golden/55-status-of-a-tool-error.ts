import { github } from "rewind:tools";
import { ToolError } from "rewind";

export default async function main(input: { repo: string }) {
  try { await github.list_issues({ repo: input.repo }); }
  catch (e) { if (e instanceof ToolError && e.status === 404) return null; throw e; }
}
