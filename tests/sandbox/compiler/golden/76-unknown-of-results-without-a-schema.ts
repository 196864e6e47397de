import { fs, github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  const file = await fs.read_file({ path: "repos.json" });
  const names: string[] = [...new Set(file.names)];
  for (const repo of new Set(file.names)) await github.list_issues({ repo });
  return names;
}
