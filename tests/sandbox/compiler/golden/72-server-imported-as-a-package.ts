import { github } from "github";

export default async function main() {
  return await github.list_issues({ repo: "x" });
}
