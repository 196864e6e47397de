import { github } from "rewind:tools";

export default async function main(input: { issues: github.Issue[] }) {
  return input.issues.length;
}
