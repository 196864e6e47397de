import { github } from "rewind:tools";

export default async function main(input: { repo: string }) {
  try {
    return await github.list_issues({ repo: input.repo });
  } catch (error) {
    return { failed: error.message };
  }
}
