import { github } from "rewind:tools";

export default async function main() {
  return await github.list_issues();
}
